"""What is observed of the eager model: the values that it reads, and what it asks for besides its inputs."""

import datetime
import gc
import importlib
import os
import sys
import time
from collections.abc import Iterator

import pytest
import torch

from tests.tracehouse.check.targets import Load, make_target, trace_target
from tracehouse.check.instrumentation.ambient_reads import AmbientRead, make_alternatives
from tracehouse.check.instrumentation.value_reads import ReadRecorder
from tracehouse.check.observe import Observation, observe
from tracehouse.differential.budget import Budget
from tracehouse.introspection.user_lines import line_at

QUESTIONS = (
    "Threads", "Dtype", "Depth", "Folder", "Process", "Processors", "Garbage", "Host", "Node", "Locale", "Memory",
    "Level", "Enabled", "Collections", "Parent", "Load", "Others", "Precision", "Deterministic", "Errors",
)  # fmt: skip
X = torch.tensor([[0.5, 1.5, 2.0, 0.25], [1.0, 0.125, 0.75, 3.0]])


@pytest.fixture(autouse=True)
def _nothing_collected() -> Iterator[None]:
    """hypothesis, where it ran in this process before, asks for the time whenever garbage is collected."""
    gc.disable()
    yield
    gc.enable()


def observed(load: Load, name: str, entrypoint: str = "Net", *args: torch.Tensor) -> Observation:
    return observe(trace_target(load(name, entrypoint), *(args or (X,)))[0], Budget(60.0))


def test_a_branch_on_a_value_is_a_read_of_its_line(load: Load) -> None:
    (read,) = observed(load, "branches_on_data").reads

    assert (read.line.file, read.line.line, read.line.source) == ("branches_on_data.py", 6, "if x.sum() > 0:")
    assert (read.depends_on, read.values) == ("values", [True])
    assert 0.0 in read.numbers


@pytest.mark.parametrize(("entrypoint", "kind"), [("Net", "numpy"), ("ByDlpack", "__dlpack__"), ("ByList", "tolist")])
def test_a_way_round_by_python_is_a_read(load: Load, entrypoint: str, kind: str) -> None:
    (read,) = observed(load, "computes_in_numpy", entrypoint).reads

    assert (read.site.kind, read.depends_on) == (kind, "values")


def test_a_read_of_weights_or_of_what_was_made_of_a_shape_depends_on_no_input(load: Load) -> None:
    reads = observed(load, "reads_its_weights").reads

    assert [(read.site.kind, read.depends_on) for read in reads] == [
        ("__bool__", "constants"),
        ("__int__", "constants"),
    ]


def test_a_size_that_follows_from_values_is_a_value(load: Load) -> None:
    (read,) = observed(load, "counts_what_is_positive").reads

    assert (read.line.line, read.depends_on) == (7, "values")


def test_a_size_of_the_inputs_is_none(load: Load) -> None:
    reads = {read.line.line: read.depends_on for read in observed(load, "checks_its_values").reads}

    assert reads == {6: "values", 8: "sizes", 9: "values"}


def test_what_a_value_is_compared_with_is_known(load: Load) -> None:
    assert 1000.0 in observed(load, "branches_on_large_values").numbers


def test_two_reads_on_one_line_are_two(load: Load) -> None:
    reads = observed(load, "branches_twice").reads

    assert len({read.site for read in reads}) == 2


def test_tensors_read_as_ever_afterwards(load: Load) -> None:
    before = dict(vars(torch.Tensor))
    observed(load, "branches_on_data")

    assert dict(vars(torch.Tensor)) == before


def test_attention_takes_its_fast_path_while_it_is_watched(load: Load) -> None:
    target, _ = trace_target(load("encoder"), torch.randn(2, 3, 8))
    with ReadRecorder(target.call):
        watched = target.eager.answer(target.call)

    assert torch.equal(watched.outputs, target.eager.answer(target.call).outputs)


@pytest.mark.parametrize(
    ("name", "entrypoint", "effects"),
    [
        ("asks_for_the_time", "Net", {"harmful"}),
        ("asks_for_the_time", "Logs", {"harmless"}),
        ("asks_for_the_time", "Expires", {"harmful"}),
        ("asks_for_the_time", "KnowsTheHour", {"harmful"}),
        ("asks_for_the_time", "CountsNanoseconds", {"harmful"}),
        ("asks_the_environment", "Net", {"harmful"}),
        ("asks_the_environment", "Logs", {"harmless"}),
    ],
)
def test_what_is_asked_for_besides_the_inputs_is_harmful_where_an_answer_shows_it(
    load: Load, name: str, entrypoint: str, effects: set[str]
) -> None:
    ambient = observed(load, name, entrypoint).ambient

    assert {one.effect for one in ambient} == effects
    assert all(one.read.line.file == f"{name}.py" for one in ambient)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_setting_of_the_process_is_harmful_where_an_answer_shows_it(load: Load, question: str) -> None:
    target, _ = trace_target(load("asks_its_process", "Doubles", question=question), X)
    (setting,) = observe(target, Budget(60.0)).ambient

    assert (setting.read.kind, setting.effect) == ("setting", "harmful")
    assert setting.read.line.file == "asks_its_process.py"


def test_what_a_hook_reads_to_find_a_module_is_no_read_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    target = make_target(ImportsAModule(), X)

    assert observe(target, Budget(60.0)).ambient == []


class Finder:
    """A hook of imports that looks for a file."""

    def find_spec(self, *_: object) -> None:
        os.path.exists("somewhere")
        os.stat(".")


class ImportsAModule(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sys.modules.pop("colorsys", None)
        importlib.import_module("colorsys")
        return x * 2


@pytest.mark.parametrize("entrypoint", ["Looks", "MakesPositions"])
def test_a_setting_that_no_answer_shows_is_harmless(load: Load, entrypoint: str) -> None:
    ambient = observed(load, "asks_its_process", entrypoint).ambient

    assert ambient
    assert {one.effect for one in ambient} == {"harmless"}


def test_a_mapping_of_the_models_own_is_not_the_environment(load: Load) -> None:
    assert observed(load, "looks_into_a_mapping").ambient == []


def test_the_clock_is_moved_to_each_hour_and_weekday_and_to_all_months() -> None:
    """A model may go another way in one of them alone, such as at night."""
    read = AmbientRead("clock", "datetime.now", line_at(__file__, 1))
    seen = []
    for _, world in make_alternatives(read):
        with world:
            seen.append(datetime.datetime.now())  # noqa: DTZ005 - as a model asks for it

    assert {one.hour for one in seen} == {*range(24)}
    assert {one.weekday() for one in seen} == {*range(7)}
    assert {one.month for one in seen} == {*range(1, 13)}


def test_the_clock_and_the_environment_are_as_they_were_afterwards(load: Load) -> None:
    load("asks_for_the_time")  # this gives the submitted code a home
    clock, environment = time.time, dict(os.environ)
    observed(load, "asks_for_the_time")
    observed(load, "asks_the_environment")

    assert (time.time, dict(os.environ)) == (clock, environment)


def test_a_model_that_computes_something_else_when_it_is_traced_is_seen(load: Load) -> None:
    seen = observed(load, "asks_whether_it_is_traced")

    assert seen.tracing_difference is not None
    assert [(one.name, one.line.line) for one in seen.contexts] == [("torch.jit.is_tracing", 6)]


def test_a_model_that_answers_slightly_otherwise_when_it_is_traced_is_seen(load: Load) -> None:
    assert observed(load, "asks_whether_it_is_traced", "Slightly").tracing_difference is not None


def test_a_model_that_asks_for_nothing_has_nothing_observed(load: Load) -> None:
    seen = observed(load, "linear")

    assert (seen.reads, seen.ambient, seen.contexts) == ([], [], [])
