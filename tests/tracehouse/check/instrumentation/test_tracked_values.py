"""Tracked values behave as those they stand for, and record what is asked of them."""

import copy
import json
import math
import pickle

import numpy as np
import pytest
import torch

from tracehouse.check.instrumentation.tracked_values import ValueTracker, track_functions
from tracehouse.check.instrumentation.value_reads import ReadSite

READ = ReadSite("model.py", 1, None, "item")


def test_what_is_asked_is_answered_truly() -> None:
    seven, half, listed = ValueTracker().track(READ, (7, 0.5, [1, 2]))

    assert (seven == 7, seven < 7, 7 in [seven, 8], bool(seven - 7)) == (True, False, True, False)
    assert (listed == [1, 2], 3 in listed, {7: "a"}[seven], hash(half)) == (True, False, "a", hash(0.5))
    assert (f"{half:.1f}", str(seven), round(half + 1.2), math.sqrt(half * 2)) == ("0.5", "7", 2, 1.0)


@pytest.mark.parametrize("ask", [
    lambda value: value == 7,
    lambda value: value * 2 + 1 > 3,
    lambda value: 10 % value == 3,
    lambda value: value in [1, 2],
    lambda value: f"{value:03d}" == "007",
    lambda value: sum([value, value]) >= 14,
    lambda value: [False, True][bool(value)],
    lambda value: (value / 2).is_integer(),
    lambda value: value.bit_length() == 3,
])  # fmt: skip
def test_another_answer_is_given(ask) -> None:  # type: ignore[no-untyped-def]
    tracker = ValueTracker()
    truth = ask(tracker.track(READ, 7))
    otherwise = ValueTracker(dict.fromkeys(tracker.answers, not truth))

    assert tracker.answers
    assert set(tracker.reads.values()) == {READ}
    assert ask(otherwise.track(READ, 7)) is not truth


@pytest.mark.parametrize("ask", [
    lambda array: array[0] > 1,
    lambda array: bool((array == 7).any()),
    lambda array: np.mean(array) < 0,
    lambda array: math.isinf(array.max()),
    lambda array: math.sin(array[1]) > 0.9,
    lambda array: chr(array.argmax()) == "a",
])  # fmt: skip
def test_another_answer_is_given_of_an_array(ask) -> None:  # type: ignore[no-untyped-def]
    array = np.array([1.0, 2.0])
    tracker = ValueTracker()
    with track_functions():
        truth = ask(tracker.track(READ, array))
        otherwise = ask(ValueTracker(dict.fromkeys(tracker.answers, not truth)).track(READ, array))

    assert otherwise is not truth
    assert truth == ask(array)


def test_a_truth_that_was_read_is_a_question() -> None:
    tracker = ValueTracker({READ: True})

    assert tracker.track_read(READ, False) is True
    assert tracker.answers == {READ: {False}}


def test_torch_and_numpy_take_them() -> None:
    two, half = ValueTracker().track(READ, (2, 0.5))

    assert torch.full((two,), half).tolist() == [0.5, 0.5]
    assert np.array([half, half]).dtype == np.float64
    assert json.dumps([two, half]) == "[2, 0.5]"


def test_copies_and_pickles_are_of_the_value_alone() -> None:
    values = [7, 0.5, "seven", b"seven"]
    tracked = ValueTracker().track(READ, values)

    assert pickle.loads(pickle.dumps(tracked)) == values
    assert [type(value) for value in copy.deepcopy(tracked)] == [int, float, str, bytes]


def test_after_its_run_a_tracked_value_answers_truly() -> None:
    truth = ValueTracker()
    assert truth.track(READ, 7) == 7
    tracker = ValueTracker(dict.fromkeys(truth.answers, False))
    seven = tracker.track(READ, 7)
    tracker.is_over = True

    assert seven == 7
