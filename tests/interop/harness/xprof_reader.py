# SPDX-License-Identifier: Apache-2.0
"""XProf's own opinion about files: its tools, asked without its cache, in a process of their own."""

from harness.clients import StockClient


def rows(table):
    """Rows of a DataTable as dictionaries by column id."""
    ids = [column["id"] for column in table.get("cols", [])]
    return [dict(zip(ids, (cell.get("v") if cell else None for cell in row["c"]))) for row in table.get("rows", [])]


class XProf(StockClient):
    def __init__(self):
        super().__init__("xprof")

    def tool_names(self, paths):
        return set(self.call("tool_names", paths=_texts(paths))["tools"])

    def read(self, paths, tool, **params):
        return self.call("read", paths=_texts(paths), tool=tool, **params)["data"]

    def overview(self, paths):
        return Overview(self.read(paths, "overview_page"))

    def input_pipeline(self, paths):
        return InputPipeline(self.read(paths, "input_pipeline_analyzer"))

    def op_rows(self, paths):
        return rows(self.read(paths, "framework_op_stats")[0])

    def viewer(self, paths):
        return Viewer(self.read(paths, "trace_viewer"))


class Overview:
    def __init__(self, page):
        self.step_rows = rows(page[1])
        self.step_properties = page[1].get("p", {})
        self.environment = page[2].get("p", {})
        self.diagnostics = [row["message"] for row in rows(page[6])]

    def step_ms(self):
        return float(self.step_properties["steptime_ms_average"])


class InputPipeline:
    def __init__(self, page):
        self.steps = rows(page[1])

    def input_share(self):
        """Part of all step time that XProf takes for waiting for input."""
        total = sum(float(step["stepTimeMs"]) for step in self.steps)
        return sum(float(step["infeedTimeMs"]) for step in self.steps) / total


class Viewer:
    """What the trace viewer draws."""

    def __init__(self, trace):
        events = trace["traceEvents"]
        self.names = [event["name"] for event in events if event.get("ph") == "X"]
        self.threads = {event["args"]["name"] for event in events if event.get("name") == "thread_name"}


def _texts(paths):
    return [str(path) for path in paths]
