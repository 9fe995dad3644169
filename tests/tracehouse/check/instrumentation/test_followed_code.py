"""Followed code does what the code says, at the same places, and passes each operation through the follower."""

import gc
import importlib.util
import linecache
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tracehouse.check.instrumentation import followed_code
from tracehouse.check.instrumentation.followed_code import (
    Follower,
    follow_code,
    is_followed,
    set_objects_aside,
)
from tracehouse.introspection import user_lines

SOURCE = """
from collections import namedtuple
from contextlib import suppress
import inspect
import sys

Point = namedtuple("Point", "x y")


class Base:
    def name(self):
        return "base"


class Thing(Base):
    __secret = 3

    def __init__(self):
        self.count = 0
        self.table = {"a": [1, 2]}

    def name(self):
        return super().name() + f"!{self.__secret:>{2}}" + f"{'x'!r}"

    def everything(self, *args, key=4, **kwargs):
        first, *rest = [one * 2 for one in range(key) if one]
        self.count += first
        self.table["a"][0] += 10
        self.table["b"] = {one: one ** 2 for one in rest}
        low = 0 < first <= 2 and not self.table.get("c")
        text = "%d-%s" % (first, "".join(sorted({"b", "a"})))
        try:
            self.table["missing"]
        except KeyError as error:
            text += str(error)
        with suppress(ZeroDivisionError):
            text += "suppressed"
            1 / (first - 2)
        with suppress(ZeroDivisionError):
            text += str(1 / first)
        match Point(first, 1):
            case Point(x=2, y=int(y)) if y:
                text += "point"
        total = 0
        for one in (*rest, *args):
            total += one
        while total > 100:
            total //= 2
        chosen = max([[1, 2, 3][1:][0], kwargs.get("extra", 0)], key=lambda one: -one)
        return text, low, total, chosen, self.count, self.table, sorted(locals())[:3], eval("first + 1")


def make():
    return lambda thing: thing.name() + "?"


def middle(values, slice):
    return values[slice:3]


def frames():
    return sys._getframe().f_code.co_name, inspect.currentframe().f_code.co_name


def count_down(depth):
    return 0 if depth == 0 else count_down(depth - 1)


def read(value):
    return [
        value.read(),
        (value
            .read()),
    ]
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = tmp_path / "followed_thing.py"
    path.write_text(textwrap.dedent(SOURCE))
    found = importlib.util.spec_from_file_location("followed_thing", path)
    assert found is not None
    assert found.loader is not None
    made = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "followed_thing", made)
    monkeypatch.setitem(user_lines.submitted, str(path), "followed_thing")
    found.loader.exec_module(made)
    return made


def test_it_does_what_the_code_says(module: ModuleType) -> None:
    expected = module.Thing().name(), module.Thing().everything(500, key=5, extra=7)
    with follow_code(Follower()):
        followed = module.Thing().name(), module.Thing().everything(500, key=5, extra=7)

    assert followed == expected


def test_each_operation_passes_through_the_follower(module: ModuleType) -> None:
    passed: list[str] = []

    class Notes(Follower):
        def __getattribute__(self, name: str) -> Any:
            passed.append(name)
            return super().__getattribute__(name)

    with follow_code(Notes()):
        module.Thing().name()
        module.Thing().everything(1)

    methods = {name for name in vars(Follower) if not name.startswith("_")}
    assert methods - {*passed} == set()


def test_the_code_is_as_it_was_afterwards_and_what_it_made_lives_on(module: ModuleType) -> None:
    own = module.Thing.everything.__code__
    with follow_code(Follower()):
        assert module.Thing.everything.__code__ is not own
        kept = module.make()

    assert module.Thing.everything.__code__ is own
    assert kept(module.Thing()) == "base! 3'x'?"


@pytest.fixture
def nothing_set_aside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without what the session has set aside."""
    monkeypatch.setattr(followed_code, "_set_aside", followed_code._SetAside())
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("nothing_set_aside")
def test_functions_are_followed_that_are_older_than_objects_set_aside_and_that_are_newer(module: ModuleType) -> None:
    older = module.make()
    with set_objects_aside():
        newer = module.make()
        with follow_code(Follower()):
            assert is_followed(older.__code__)
            assert is_followed(newer.__code__)
            assert is_followed(module.Thing.everything.__code__)
        newest = module.make()
        with follow_code(Follower()):
            assert is_followed(older.__code__)
            assert is_followed(newest.__code__)
    with follow_code(Follower()):
        assert is_followed(newest.__code__)

    assert not is_followed(older.__code__)
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("nothing_set_aside")
def test_functions_are_followed_that_the_process_had_frozen_and_they_stay_frozen(module: ModuleType) -> None:
    older = module.make()
    gc.freeze()
    try:
        with set_objects_aside():
            made = module.make()
            with follow_code(Follower()):
                assert is_followed(older.__code__)
                assert is_followed(made.__code__)

        assert gc.get_freeze_count() > 0
        assert not any(one is older for one in gc.get_objects())
    finally:
        gc.unfreeze()


@pytest.mark.usefixtures("nothing_set_aside")
def test_functions_stay_followed_where_objects_are_set_aside_once_more(module: ModuleType) -> None:
    with set_objects_aside():
        older = module.make()
        with set_objects_aside(), follow_code(Follower()):
            assert is_followed(older.__code__)
            assert is_followed(module.Thing.everything.__code__)
        with follow_code(Follower()):
            assert is_followed(older.__code__)
            assert is_followed(module.Thing.everything.__code__)


@pytest.mark.usefixtures("nothing_set_aside")
def test_functions_are_followed_that_the_model_itself_has_frozen(module: ModuleType) -> None:
    gc.freeze()
    try:
        with follow_code(Follower()):
            assert is_followed(module.Thing.everything.__code__)
    finally:
        gc.unfreeze()


def test_a_read_keeps_its_place(module: ModuleType) -> None:
    class Places:
        def __init__(self) -> None:
            self.places: list[Any] = []

        def read(self) -> None:
            frame = sys._getframe(1)
            while frame.f_code.co_filename != module.__file__:
                assert frame.f_back is not None
                frame = frame.f_back
            self.places.append([*frame.f_code.co_positions()][frame.f_lasti // 2])

    own, followed = Places(), Places()
    module.read(own)
    with follow_code(Follower()):
        module.read(followed)

    assert own.places == followed.places


def test_names_and_frames_of_the_code_are_its_own(module: ModuleType) -> None:
    with follow_code(Follower()):
        assert module.middle([1, 2, 3, 4], slice=1) == [2, 3]
        assert module.frames() == ("frames", "frames")


def test_a_recursion_may_be_as_deep_as_it_was(module: ModuleType) -> None:
    depth = sys.getrecursionlimit() - 200
    with follow_code(Follower()):
        assert module.count_down(depth) == 0

    assert sys.getrecursionlimit() == depth + 200


def test_code_that_is_not_what_its_file_says_is_left_alone(module: ModuleType) -> None:
    assert module.__file__ is not None
    Path(module.__file__).write_text(textwrap.dedent(SOURCE).replace('"base"', '"other"'))
    linecache.checkcache(module.__file__)
    named, made = module.Base.name.__code__, module.make.__code__
    with follow_code(Follower()):
        assert module.Base.name.__code__ is named
        assert module.make.__code__ is not made
        assert module.Base().name() == "base"
