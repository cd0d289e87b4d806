#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validates what `jobscope report --json` and `jobscope diff --json` write against docs/*.schema.json.

usage: schema_test.py JOBSCOPE MADE_RUNS
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    sys.exit("schema_test: python3-jsonschema is missing; tools/install_deps.sh test installs it")

ROOT = pathlib.Path(__file__).resolve().parents[3]
JOBSCOPE, MADE_RUNS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])


def schema_of(name):
    schema = json.loads((ROOT / "docs" / f"{name}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema


class Coverage:
    """Walks documents along their schema: which objects have fixed fields, and which fields occur."""

    def __init__(self, schema):
        self.schema = schema
        self.seen = set()
        self.objects = []

    def resolve(self, schema):
        while "$ref" in schema:
            schema = self.schema["$defs"][schema["$ref"].rpartition("/")[2]]
        return schema

    def walk(self, value, schema):
        schema = self.resolve(schema)
        if isinstance(value, list):
            for item in value:
                self.walk(item, schema["items"])
        if not isinstance(value, dict):
            return
        fields = schema.get("properties", {})
        if schema["additionalProperties"] is False:
            self.objects.append(value)
        for name, item in value.items():
            if name in fields:
                self.seen.add((id(fields), name))
                self.walk(item, fields[name])
            else:
                self.walk(item, schema["additionalProperties"])

    def never_written(self):
        """Fields that the schema has and no document wrote."""
        schemas = [self.schema, *self.schema["$defs"].values()]
        schemas += [s for s in self.schema["properties"].values() if "properties" in s]
        return [name for s in schemas for name in s.get("properties", {}) if (id(s["properties"]), name) not in self.seen]


class SchemaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.runs = pathlib.Path(cls.scratch.name)
        subprocess.run([MADE_RUNS, cls.runs], check=True)
        cls.reports = {run.name: cls.output("report", run) for run in sorted(cls.runs.iterdir())}
        cls.diffs = {
            name: cls.output("diff", cls.runs / before, cls.runs / after)
            for name, before, after in (
                ("same", "training", "training"),
                ("slower", "training", "slower"),
                ("faster", "slower", "training"),
                ("uneven", "one_step", "one_step"),
                ("short", "short", "short"),
                ("missing", "missing", "missing"),
            )
        }

    @staticmethod
    def output(*arguments):
        done = subprocess.run([JOBSCOPE, *arguments, "--json"], stdout=subprocess.PIPE, check=False)
        if done.returncode not in (0, 1):  # 1: a regression
            raise AssertionError(f"jobscope {arguments} ended with {done.returncode}")
        return json.loads(done.stdout)

    def check(self, documents, name):
        schema = schema_of(name)
        validator = jsonschema.Draft202012Validator(schema)
        for which, document in documents.items():
            with self.subTest(document=which):
                errors = [f"{'/'.join(map(str, e.absolute_path))}: {e.message}" for e in validator.iter_errors(document)]
                self.assertEqual(errors, [])

    def check_that_fields_are_known(self, documents, name):
        """Another field in any object whose fields are fixed is an error; the schema has no field that nobody writes."""
        schema = schema_of(name)
        validator = jsonschema.Draft202012Validator(schema)
        coverage = Coverage(schema)
        for document in documents.values():
            coverage.walk(document, schema)
        self.assertEqual(coverage.never_written(), [])
        for which, document in documents.items():
            document = copy.deepcopy(document)
            one = Coverage(schema)
            one.walk(document, schema)
            for found in one.objects[:: max(1, len(one.objects) // 50)]:
                found["surprise"] = 1
                self.assertFalse(validator.is_valid(document), f"{which}: another field in {sorted(found)} is not noticed")
                del found["surprise"]
            self.assertTrue(validator.is_valid(document))

    def test_reports(self):
        self.check(self.reports, "report")

    def test_report_fields(self):
        self.check_that_fields_are_known(self.reports, "report")

    def test_every_finding_occurs(self):
        findings = {report["verdict"]["finding"] for report in self.reports.values()}
        self.assertEqual(findings, {"straggler", "bound", "balanced", "undecidable"})

    def test_every_verdict_has_advice(self):
        for name, report in self.reports.items():
            with self.subTest(run=name):
                self.assertTrue(report["verdict"].get("advice"))

    def test_diffs(self):
        self.check(self.diffs, "diff")

    def test_diff_fields(self):
        self.check_that_fields_are_known(self.diffs, "diff")
        outcomes = {name: diff["outcome"] for name, diff in self.diffs.items()}
        self.assertEqual(outcomes, {"same": "neutral", "slower": "regression", "faster": "improvement", "uneven": "inconclusive", "short": "inconclusive",
                                    "missing": "neutral"})
        self.assertNotIn("change_low", self.diffs["short"])

    def test_report_md_lists_each_field(self):
        text = (ROOT / "docs" / "report.md").read_text("utf-8")
        _, _, diff = text.partition("## Comparing two runs")
        for name, where in (("report", text), ("diff", diff)):
            unlisted = [field for field in schema_of(name)["properties"] if f"`{field}`" not in where and f'`"{field}": ' not in where]
            self.assertEqual(unlisted, [], name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
