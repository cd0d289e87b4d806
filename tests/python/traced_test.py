# SPDX-License-Identifier: Apache-2.0
"""Tests functions under `jobscope.traced`: their events in a trace, and that they are otherwise unchanged."""
import asyncio
import copy
import functools
import gc
import inspect
import pickle
import unittest
import weakref

import jobscope
import recording_case
import xspace


def _noted(function):
    function.note = "kept"
    return function


@jobscope.traced
@_noted
def documented(a: int):
    """Doc."""
    return a


class TracedTest(recording_case.RecordingCase):
    def test_traced_functions(self):
        @jobscope.traced
        def plain(value):
            """Doc."""
            return value

        @jobscope.traced("other name")
        def named():
            return 2

        @jobscope.traced(level=3)
        def verbose():
            return 3

        class Model:
            @jobscope.traced
            def forward(self):
                return 4

            @jobscope.traced
            @staticmethod
            def static():
                return 5

            @jobscope.traced
            @classmethod
            def of_class(cls):
                return cls

        with self.recorded() as events:
            self.assertEqual((plain(value=1), named(), verbose(), Model().forward(), Model.static()), (1, 2, 3, 4, 5))
            self.assertIs(Model.of_class(), Model)
        self.assertEqual((plain.__name__, plain.__doc__), ("plain", "Doc."))
        local = "TracedTest.test_traced_functions.<locals>."
        for name in (local + "plain", "other name", local + "Model.forward", local + "Model.static"):
            self.only(events, name)
        self.assertEqual(xspace.named(events, local + "verbose"), [])

    def test_traced_functions_are_called_as_they_were(self):
        """All ways of passing arguments, of being bound, and of failing; idle and active."""

        @jobscope.traced
        def everything(a, b=2, *rest, c=3, **others):
            return a, b, rest, c, others

        class Model:
            def __init__(self, value):
                self.value = value

            @jobscope.traced
            def method(self, *args, **kwargs):
                return self.value, args, kwargs

            @property
            @jobscope.traced
            def doubled(self):
                return 2 * self.value

        @jobscope.traced
        def fails(number):
            raise KeyError(number)

        @jobscope.traced
        def recurses(number):
            return recurses(number - 1) + 1 if number else 0

        def check():
            self.assertEqual(everything(1), (1, 2, (), 3, {}))
            self.assertEqual(everything(1, 5, 6, 7, c=8, d=9), (1, 5, (6, 7), 8, {"d": 9}))
            self.assertEqual(everything(b=4, a=1), (1, 4, (), 3, {}))
            self.assertEqual(everything(*range(4), **{"c": 5, "é": 6}), (0, 1, (2, 3), 5, {"é": 6}))
            model = Model(7)
            self.assertEqual(model.method(1, k=2), (7, (1,), {"k": 2}))
            bound = model.method
            self.assertEqual(bound(3), (7, (3,), {}))
            self.assertIs(bound.__self__, model)
            self.assertEqual(Model.method(model, 4), (7, (4,), {}))
            self.assertEqual(model.doubled, 14)
            self.assertEqual(list(map(everything, [8])), [(8, 2, (), 3, {})])
            self.assertEqual(functools.partial(everything, 1, c=2)(3), (1, 3, (), 2, {}))
            self.assertEqual(recurses(50), 50)
            with self.assertRaises(KeyError):
                fails(1)
            with self.assertRaisesRegex(TypeError, "missing 1 required positional argument: 'a'"):
                everything()
            with self.assertRaises(TypeError):
                fails(1, number=2)

        check()
        with self.recorded() as events:
            check()
        local = "TracedTest.test_traced_functions_are_called_as_they_were.<locals>."
        self.assertEqual(len(xspace.named(events, local + "everything")), 7)
        self.assertEqual(len(xspace.named(events, local + "Model.method")), 3)
        self.assertEqual(len(xspace.named(events, local + "Model.doubled")), 1)
        self.assertEqual(len(xspace.named(events, local + "recurses")), 51)
        self.assertEqual(len(xspace.named(events, local + "fails")), 2)

    def test_traced_functions_look_like_what_they_wrap(self):
        self.assertEqual(inspect.signature(documented), inspect.signature(documented.__wrapped__))
        self.assertEqual(documented.__module__, __name__)
        self.assertEqual(documented.__qualname__, "documented")
        self.assertEqual(documented.__annotations__, {"a": int})
        self.assertEqual(documented.note, "kept")
        documented.more = 1
        self.assertEqual(documented.more, 1)
        self.assertTrue(inspect.isroutine(documented))
        self.assertIs(pickle.loads(pickle.dumps(documented)), documented)
        self.assertIs(copy.deepcopy([documented])[0], documented)
        self.assertIs(copy.copy(documented), documented)
        self.assertIn("documented", repr(documented))
        self.assertIs(inspect.unwrap(documented), documented.__wrapped__)

    def test_traced_functions_are_freed(self):
        class Holder:
            pass

        def make():
            holder = Holder()

            @jobscope.traced
            def function():
                return holder, function  # a cycle, through the cell

            return weakref.ref(holder), weakref.ref(function), function

        holder, reference, function = make()
        self.assertIs(function()[1], function)
        self.assertIs(reference(), function)
        del function
        gc.collect()
        self.assertIsNone(reference())
        self.assertIsNone(holder())

    def test_traced_coroutines_overlap(self):
        @jobscope.traced("request")
        async def request(first, second):
            first.set()
            await second.wait()

        async def both():
            a, b = asyncio.Event(), asyncio.Event()
            await asyncio.gather(request(a, b), request(b, a))

        self.assertTrue(inspect.iscoroutinefunction(request))
        with self.recorded() as events:
            asyncio.run(both())
        found = xspace.named(events, "request")
        self.assertEqual(len(found), 2)
        self.assertLess(found[1].start_ps, found[0].start_ps + found[0].duration_ps)

    def test_traced_coroutines_have_levels(self):
        async def call():
            return 5

        for level, wanted in ((1, ["one"]), (2, ["one", "two"]), (3, ["one", "three", "two"])):
            with self.recorded(host_tracer_level=level) as events:
                for number, name in enumerate(("one", "two", "three"), 1):
                    self.assertEqual(asyncio.run(jobscope.traced(call, name=name, level=number)()), 5)
            self.assertEqual(sorted(event.name for event in events if event.name in ("one", "two", "three")), wanted)

    def test_traced_refuses_generators(self):
        with self.assertRaisesRegex(TypeError, "generator"):

            @jobscope.traced
            def generator():
                yield

        with self.assertRaises(TypeError):
            jobscope.traced(3)
        with self.assertRaises(ValueError):
            jobscope.traced(level=4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
