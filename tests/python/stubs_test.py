# SPDX-License-Identifier: Apache-2.0
"""Tests that the type stubs declare exactly the names and signatures of the package."""
import ast
import inspect
import os
import unittest

import jobscope

STUB = os.path.join(os.path.dirname(jobscope.__file__), "__init__.pyi")


def _signature(function):
    """{name of a parameter: (kind, has a default)} of a function of the stub."""
    arguments = function.args
    kinds = {}
    positional = arguments.posonlyargs + arguments.args
    defaults = len(positional) - len(arguments.defaults)
    for number, argument in enumerate(positional):
        kind = "positional" if number < len(arguments.posonlyargs) else "either"
        kinds[argument.arg] = (kind, number >= defaults)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        kinds[argument.arg] = ("keyword", default is not None)
    if arguments.kwarg:
        kinds[arguments.kwarg.arg] = ("keywords", False)
    if arguments.vararg:
        kinds[arguments.vararg.arg] = ("rest", False)
    return kinds


WORDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "either",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_KEYWORD: "keywords",
    inspect.Parameter.VAR_POSITIONAL: "rest",
}


class StubsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(STUB, encoding="utf-8") as file:
            cls.tree = ast.parse(file.read())
        cls.names = {
            node.name: node
            for node in cls.tree.body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
        }

    def test_same_names(self):
        self.assertEqual(sorted(self.names), sorted(jobscope.__all__))
        for name in jobscope.__all__:
            self.assertTrue(hasattr(jobscope, name), name)

    def test_same_parameters(self):
        compared = 0
        for name, node in self.names.items():
            if not isinstance(node, ast.FunctionDef) or node.decorator_list:
                continue
            parameters = inspect.signature(getattr(jobscope, name)).parameters.values()
            real = {p.name: (WORDS[p.kind], p.default is not p.empty) for p in parameters}
            self.assertEqual(_signature(node), real, name)
            compared += 1
        self.assertGreater(compared, 10)

    def test_same_methods(self):
        for name, node in self.names.items():
            if not isinstance(node, ast.ClassDef):
                continue
            real = getattr(jobscope, name)
            self.assertTrue(inspect.isclass(real), name)
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    self.assertTrue(hasattr(real, member.name), f"{name}.{member.name}")

    def test_the_package_says_that_it_is_typed(self):
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(jobscope.__file__), "py.typed")))

    def test_everything_is_documented(self):
        for name in jobscope.__all__:
            self.assertTrue(inspect.getdoc(getattr(jobscope, name)), name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
