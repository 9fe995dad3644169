"""Marks see that an iterator has gone on, and stay equal as long as it has not."""

import array
import ctypes
import functools
import io
import itertools
import mmap
import multiprocessing
import random
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import pytest
import torch

from tracehouse.eager.state_marks import mark_value

ITERATORS = {
    "cycle": itertools.cycle([1.0, 1.0, 2.0]),
    "chain": itertools.chain([1], [2, 3, 4, 5, 6]),
    "zip": zip([1, 2, 3, 4, 5], strict=True),
    "enumerate": enumerate([1] * 5),
    "repeat": itertools.repeat(1, 5),
}


@pytest.mark.parametrize("name", ITERATORS)
def test_an_iterator_is_marked_by_how_far_it_has_come(name: str) -> None:
    iterator: Iterator[object] = ITERATORS[name]
    for _ in range(4):
        before = mark_value(iterator)
        assert mark_value(iterator) == before
        next(iterator)
        assert mark_value(iterator) != before


def test_a_generator_is_marked_by_its_variables_and_by_what_it_yields_from() -> None:
    def count() -> Iterator[int]:
        number = 0
        while number < 3:
            number += 1
            yield number
        yield from itertools.repeat(1, 5)

    generator = count()
    for _ in range(6):
        before = mark_value(generator)
        assert mark_value(generator) == before
        next(generator)
        assert mark_value(generator) != before


@pytest.mark.parametrize("holder", [io.StringIO("a"), io.BytesIO(b"a"), array.array("i", [1]), bytearray(b"a")])
def test_what_is_written_into_memory_is_marked(holder: Any) -> None:
    before = mark_value(holder)
    assert mark_value(holder) == before

    if isinstance(holder, io.IOBase):
        holder.write(holder.getvalue())  # type: ignore[attr-defined]
    else:
        holder[0] = 5
    assert mark_value(holder) != before


def put(holder: Any) -> None:
    holder[0] = 5


def count(holder: Any) -> None:
    holder.value += 1


def insert(holder: sqlite3.Connection) -> None:
    holder.execute("create table counts as select 1")
    holder.execute("insert into counts values (2)")


@pytest.mark.parametrize(
    ("holder", "change"),
    [
        (mmap.mmap(-1, 16), put),
        (memoryview(bytearray(4)), put),
        ((ctypes.c_int * 4)(), put),
        (ctypes.c_int(1), count),
        (multiprocessing.Value("i", 1), count),
        (threading.Semaphore(60), threading.Semaphore.acquire),
        (threading.Event(), threading.Event.set),
        (sqlite3.connect(":memory:"), insert),
        (itertools.count().__next__, lambda following: following()),
        (functools.partial(next, itertools.count()), lambda following: following()),
    ],
    ids=lambda part: type(part).__name__,
)
def test_what_counts_outside_of_python_or_behind_a_function_is_marked(
    holder: Any, change: Callable[[Any], object]
) -> None:
    before = mark_value(holder)
    assert mark_value(holder) == before

    change(holder)
    assert mark_value(holder) != before


def test_memory_that_processes_share_is_marked() -> None:
    shared = SharedMemory(create=True, size=16)
    try:
        before = mark_value(shared)
        assert mark_value(shared) == before

        shared.buf[0] = 5
        assert mark_value(shared) != before
    finally:
        shared.close()
        shared.unlink()


def test_a_draw_of_the_process_changes_no_function_that_draws() -> None:
    before = mark_value([random.random, random.shuffle])
    random.random()

    assert mark_value([random.random, random.shuffle]) == before


def test_a_container_that_gets_its_first_item_is_marked_anew() -> None:
    holder: dict[object, object] = {}
    before = mark_value(holder)
    assert before == mark_value(OrderedDict())

    holder["a"] = 1
    assert mark_value(holder) != before


def test_a_key_and_a_value_of_another_type_or_name_are_marked_otherwise() -> None:
    marks = [
        mark_value({key: value}) for key, value in [("a", 1), ("b", 1), (1, 1), (True, 1), ("a", True), ("a", 1.0)]
    ]
    assert all(one != other for one, other in itertools.combinations(marks, 2))


def test_a_tensor_is_marked_by_itself_and_by_how_often_it_was_written_to() -> None:
    tensor = torch.nn.Parameter(torch.zeros(2))
    before = mark_value(tensor)
    assert mark_value(tensor) == before
    assert mark_value(tensor.clone()) != before

    with torch.no_grad():
        tensor.add_(1)
    assert mark_value(tensor) != before


def test_an_object_too_deep_to_be_looked_into_keeps_its_mark() -> None:
    holder = [[[pytest.mark.skip.mark]]]
    before = mark_value(holder)
    others: list[dict[str, int]] = [{} for _ in range(100)]  # they take the memory of what the mark was made with

    assert mark_value(holder) == before
    assert len(others) == 100
