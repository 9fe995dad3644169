"""The flip layer: it finds the reads because of which an artifact answers wrongly, and inputs that prove it."""

from typing import Any

import pytest
import torch

from tests.tracehouse.check.targets import Load, trace_target
from tracehouse.check.calls import CallResult, call_artifact
from tracehouse.check.flip import flip, input_search
from tracehouse.check.flip.flip import ReadEffect, judge_reads, judge_warning
from tracehouse.check.flip.input_search import search_inputs
from tracehouse.check.instrumentation.value_reads import ReadRecorder, Replacement
from tracehouse.check.observe import observe, watch_trace
from tracehouse.check.oracle import EagerOracle
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call
from tracehouse.torch_values.compare import compare

X = torch.tensor([[0.5, 1.5, 2.0, 0.25], [1.0, 0.125, 0.75, 3.0]])
IDS = torch.tensor([[1, 2, 3, 0], [2, 2, 0, 0]])
MASK = torch.ones(2, 4, dtype=torch.int64)
BUDGET_S = 30.0
MORE_TIME = "a new one, on a less busy machine or with a larger budget_s, may find the line harmless"


def judge(load: Load, name: str, entrypoint: str = "Net", *args: torch.Tensor) -> list[ReadEffect]:
    target, _ = trace_target(load(name, entrypoint), *(args or (X,)))
    return judge_reads(target, observe(target, Budget(BUDGET_S)), Budget(BUDGET_S))


@pytest.mark.parametrize(
    ("name", "entrypoint", "args"),
    [
        ("branches_on_data", "Net", (X,)),
        ("branches_on_large_values", "Net", (X,)),
        ("branches_on_nan", "Net", (X,)),
        ("halves_until_small", "Net", (X,)),
        ("computes_in_numpy", "Net", (X,)),
        ("computes_in_numpy", "ByList", (X,)),
        ("computes_in_numpy", "ByDlpack", (X,)),
        ("counts_what_is_positive", "Net", (X,)),
        ("counts_what_is_positive", "Rows", (IDS,)),
        ("skips_a_mask_of_ones", "Net", (X, MASK)),
        ("asks_whether_it_is_traced", "Clamps", (X,)),
        ("catches_an_operator", "Net", (IDS,)),
    ],
)
def test_a_read_that_decides_what_is_computed_is_shown_to_be_harmful(
    load: Load, name: str, entrypoint: str, args: tuple[torch.Tensor, ...]
) -> None:
    target, _ = trace_target(load(name, entrypoint), *args)
    harmful = [
        one
        for one in judge_reads(target, observe(target, Budget(BUDGET_S)), Budget(BUDGET_S))
        if one.effect == "harmful"
    ]

    assert harmful
    assert harmful[0].confirmed
    shown = harmful[0].counterexample
    assert shown is not None
    eager = target.eager.answer(shown).outputs
    try:
        artifact = call_artifact(target.artifact, shown, 0).outputs
    except RuntimeError:
        return
    assert not compare(eager, artifact, 1e-5).agrees


@pytest.mark.parametrize(
    ("entrypoint", "example"),
    [("Net", IDS[0]), ("Listed", IDS[0]), ("Keyed", IDS[0]), ("Between", X), ("Computed", IDS[0]), ("Shown", X),
     ("Both", IDS[0]), ("InNumpy", X), ("BySine", X), ("Converted", X), ("BesideADatatype", IDS[0]),
     ("Subset", IDS[0]), ("Caught", IDS[0])],
)  # fmt: skip
def test_a_branch_that_next_to_no_input_takes_is_harmful(load: Load, entrypoint: str, example: torch.Tensor) -> None:
    effects = {one.effect for one in judge(load, "branches_on_one_value", entrypoint, example)}

    assert "harmful" in effects


@pytest.mark.parametrize(("entrypoint", "example"), [("Logs", X), ("LogsTokens", IDS[0])])
def test_a_branch_that_next_to_no_input_takes_is_harmless_where_it_only_logs(
    load: Load, entrypoint: str, example: torch.Tensor
) -> None:
    assert {one.effect for one in judge(load, "branches_on_one_value", entrypoint, example)} == {"harmless"}


@pytest.mark.parametrize("entrypoint", ["AsText", "AsTheTextOfATensor", "AsAFilledInText", "AsBytes", "AsAPattern",
                                        "AsAnIndex", "AsAShiftedNumber", "AsAnError", "AsASuppressedError",
                                        "InAThread"])  # fmt: skip
def test_a_value_that_leaves_tensors_is_followed(load: Load, entrypoint: str) -> None:
    effects = {one.effect for one in judge(load, "lets_values_leave", entrypoint, IDS[0])}

    assert "harmful" in effects


@pytest.mark.parametrize("entrypoint", ["CaughtByItsOwnContext", "HasAnAttribute", "GetsByTheClass", "InACallback"])
def test_a_value_is_followed_through_what_looks_like_another_operation(load: Load, entrypoint: str) -> None:
    effects = {one.effect for one in judge(load, "lets_values_leave", entrypoint, torch.ones(2, 4) / 3)}

    assert effects & {"unknown", "harmful"}


@pytest.mark.parametrize("entrypoint", ["ByItsAddress", "AsCode", "AsACount"])
def test_a_value_that_cannot_be_followed_to_the_end_is_unknown(load: Load, entrypoint: str) -> None:
    effects = {one.effect for one in judge(load, "lets_values_leave", entrypoint, IDS[0])}

    assert effects & {"unknown", "harmful"}


def test_a_value_that_only_a_message_shows_is_harmless(load: Load) -> None:
    assert {one.effect for one in judge(load, "lets_values_leave", "Logged", IDS[0])} == {"harmless"}


@pytest.mark.parametrize(
    ("name", "entrypoint"), [("branches_on_large_values", "Slightly"), ("branches_on_one_value", "CaughtSlightly")]
)
def test_a_branch_whose_sides_differ_by_less_than_a_tolerance_is_harmful(
    load: Load, name: str, entrypoint: str
) -> None:
    assert {one.effect for one in judge(load, name, entrypoint)} == {"harmful"}


def test_a_value_that_is_only_logged_is_harmless(load: Load) -> None:
    (read,) = judge(load, "logs_a_value")

    assert (read.effect, read.reason) == ("harmless", "the graph is the same whatever is read here")


def test_values_that_are_checked_are_harmless(load: Load) -> None:
    assert {(one.line.line, one.effect) for one in judge(load, "checks_its_values")} == {
        (6, "harmless"), (8, "harmless"), (9, "harmless"),
    }  # fmt: skip


def test_a_branch_of_which_both_sides_compute_the_same_is_harmless(load: Load) -> None:
    (read,) = judge(load, "branches_where_both_sides_agree")

    assert (read.effect, read.reason) == ("harmless", "both sides of the branch were tried, and the answers agree")
    assert read.divergence is not None


def test_of_two_branches_the_one_that_matters_is_blamed_alone(load: Load) -> None:
    assert {one.line.source: one.effect for one in judge(load, "branches_twice")} == {
        "if x.max() > 1:": "harmful",
        "y = x * 2 if x.sum() > 0 else x + x": "harmless",
    }


def test_a_read_of_weights_is_harmless(load: Load) -> None:
    assert {one.effect for one in judge(load, "reads_its_weights")} == {"harmless"}


def test_what_the_budget_leaves_no_time_for_is_unknown_and_reported(load: Load) -> None:
    target, _ = trace_target(load("branches_on_data"), X)
    budget = Budget(0.0)
    (read,) = judge_reads(target, observe(target, Budget(BUDGET_S)), budget)

    assert read.effect == "unknown"
    assert read.reason.endswith(MORE_TIME)
    assert "branches_on_data.py:6" in budget.left_out()[0]


def test_a_read_whose_traces_are_all_stopped_says_that_more_time_may_help(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, _ = trace_target(load("logs_a_value"), X)
    observation = observe(target, Budget(BUDGET_S))
    monkeypatch.setattr(flip, "watch_trace", stop)
    monkeypatch.setattr(input_search, "generate_candidates", lambda *_: [])  # no other input settles it
    (read,) = judge_reads(target, observation, budget := Budget(BUDGET_S))

    assert read.effect != "harmless"
    assert read.reason.endswith(MORE_TIME)
    assert any("took too long" in one for one in budget.left_out())


def test_a_read_that_stays_unsettled_with_time_to_spare_says_nothing_of_time(load: Load) -> None:
    reads = judge(load, "catches_an_operator", "Net", IDS)

    assert reads
    assert not any(MORE_TIME in one.reason for one in reads)


def test_inputs_are_searched_for_as_long_as_the_model_is_slow(load: Load) -> None:
    target, _ = trace_target(load("branches_on_data"), X)
    target.__dict__["_timed_example"] = target._timed_example[0], 3.0
    limits = record_limits(target)
    judge_reads(target, observe(target, Budget(BUDGET_S)), Budget(BUDGET_S))

    assert 30.0 in limits
    assert min(limits) > 3.0


def stop(*_: object, **__: object) -> None:
    raise TooSlow("it did not end within 1 s")


def record_limits(target: Target) -> list[float]:
    """Return a list that gets the limit, in seconds, of each call of the eager model from now on."""
    limits: list[float] = []
    answer = target.eager.answer

    def answer_within(*args: Any, within_s: float | None = None, **kwargs: Any) -> CallResult:
        if within_s is not None:
            limits.append(within_s)
        return answer(*args, within_s=within_s, **kwargs)

    target.eager.answer = answer_within  # type: ignore[method-assign]
    return limits


def test_what_is_not_traced_has_no_read_to_judge(load: Load) -> None:
    target, _ = trace_target(load("branches_on_data"), X)
    scripted = type(target)(**{**vars(target), "retrace": None})

    assert judge_reads(scripted, observe(scripted, Budget(BUDGET_S)), Budget(BUDGET_S)) == []


@pytest.mark.parametrize(
    ("name", "effect"),
    [("branches_on_data", "harmful"), ("logs_a_value", "harmless"), ("checks_its_values", "harmless")],
)
def test_a_warning_has_the_effect_of_the_reads_of_its_line(load: Load, name: str, effect: str) -> None:
    target, warned = trace_target(load(name), X)
    reads = judge_reads(target, observe(target, Budget(BUDGET_S)), Budget(BUDGET_S))

    assert warned
    assert {judge_warning(one, reads)[0] for one in warned} == {effect}


@pytest.mark.parametrize(
    ("name", "entrypoint", "args", "remedy"),
    [
        ("branches_on_data", "Net", (X,), "torch.where(x.sum() > 0, ..., ...)"),
        ("branches_twice", "Net", (X,), "torch.where(x.sum() > 0, x * 2, x + x)"),
        ("halves_until_small", "Net", (X,), "while x.norm() > 1"),
        ("computes_in_numpy", "Net", (X,), "x.numpy()"),
        ("computes_in_numpy", "ByList", (X,), "in place of `x.tolist()`"),
        ("counts_what_is_positive", "Rows", (IDS,), "x.nonzero()"),
        ("catches_an_operator", "Net", (IDS,), "int(x[0, 0])"),
        ("branches_on_item", "Net", (X,), "write torch.where(x.mean() > 0.2, ..., ...) in place of the branch"),
    ],
)
def test_a_remedy_speaks_of_the_line(
    load: Load, name: str, entrypoint: str, args: tuple[torch.Tensor, ...], remedy: str
) -> None:
    assert any(remedy in one.remedy for one in judge(load, name, entrypoint, *args))


def test_an_index_that_raised_in_one_trace_does_not_end_the_next(load: Load) -> None:
    target, _ = trace_target(load("marks_its_ids"), torch.tensor([3, 1, 2]))
    (read, *_) = observe(target, Budget(BUDGET_S)).reads
    with pytest.raises(IndexError):
        watch_trace(target, ReadRecorder(target.call, Replacement(read.site, lambda _: 1)))
    recorded = torch.jit.trace(lambda x, place: x[place], (X, torch.tensor(1)), check_trace=False)

    assert torch.equal(recorded(X, torch.tensor(0)), X[0])


def test_a_call_that_reads_what_the_example_reads_is_not_made_to_its_end(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, _ = trace_target(load("skips_a_mask_of_ones"), X, MASK)
    [read] = observe(target, Budget(BUDGET_S)).reads
    assert target.single_s > 0  # for that it has called the model on the example
    begun, ended = [], []
    answer = EagerOracle.answer

    def count(oracle: EagerOracle, call: Call, **options: Any) -> CallResult:
        begun.append(call)
        answered = answer(oracle, call, **options)
        ended.append(call)
        return answered

    monkeypatch.setattr(EagerOracle, "answer", count)
    found = search_inputs(target, [read], [], Budget(BUDGET_S))

    assert found[read.site].counterexample is not None
    assert ended
    assert all(not bool((call.tensors["mask"] == 1).all()) for call in ended)
    assert len(ended) < len(begun)
