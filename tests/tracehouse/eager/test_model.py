"""What an entrypoint may be, and what is said where it cannot be."""

import builtins
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tracehouse.eager import model
from tracehouse.eager.copies import copy_model
from tracehouse.eager.model import Function, LoadedModel
from tracehouse.eager.source import Source
from tracehouse.errors import EntrypointNotFound, EntrypointUnusable, InitFailed
from tracehouse.spec.trace_spec import Init

Load = Callable[..., LoadedModel]


@pytest.mark.parametrize(
    ("name", "entrypoint", "init", "kind"),
    [
        ("linear", "Net", [8], "Net"),
        ("made_by_a_factory", "make", [], "Sequential"),
        ("made_by_a_factory", "make", [6], "Sequential"),
        ("made_by_a_factory", "make_function", [], "Function"),
        ("two_methods", "net", [], "Net"),
        ("two_methods", "net.encoder", [], "Linear"),
        ("functions", "add", [], "Function"),
        ("functions", "total", [], "Function"),
        ("functions", "instance", [], "Function"),
    ],
)
def test_an_entrypoint_becomes_a_module(load: Load, name: str, entrypoint: str, init: list[Any], kind: str) -> None:
    assert type(load(name, entrypoint, *init).module).__name__ == kind


def test_init_takes_keyword_arguments(load: Load) -> None:
    assert load("linear", "Net", 6, bias=False).module.layer.bias is None


def test_a_bound_method_is_its_module_with_forward_standing_for_it(load: Load) -> None:
    model = load("two_methods", "encode")

    assert model.method_name("forward") == "encode"
    assert model.method_name("decode") == "decode"


def test_a_model_is_in_eval_mode(load: Load) -> None:
    assert not load("dropout_in_training_only").module.dropout.training


def test_no_such_name_lists_what_there_is(load: Load) -> None:
    with pytest.raises(EntrypointNotFound) as raised:
        load("functions", "ad")
    assert raised.value.facts["names"] == [
        "add",
        "scaled",
        "total",
        "keywords",
        "Callable",
        "instance",
        "scaled_by",
        "scaled_or_not",
    ]


@pytest.mark.parametrize(
    ("name", "entrypoint"),
    [
        ("functions", "number"),
        ("functions", "Callable"),
        ("made_by_a_factory", "make_nothing"),
        ("two_methods", "Net.encode"),
        ("scripted_part", "torch.nn.functional"),
        ("nested_output", "Pair"),
    ],
)
def test_an_entrypoint_of_another_kind_is_unusable(load: Load, name: str, entrypoint: str) -> None:
    with pytest.raises(EntrypointUnusable):
        load(name, entrypoint)


@pytest.mark.parametrize("entrypoint", ["net", "make", "traced"])
def test_a_script_module_stays_one_in_its_copies(load: Load, entrypoint: str) -> None:
    model = load("scripted_already", entrypoint)

    assert model.is_compiled
    assert isinstance(model.copy_module(), torch.jit.ScriptModule)
    parameters, copied = dict(model.module.named_parameters()), dict(model.copy_module().named_parameters())
    assert all(parameter is copied[name] for name, parameter in parameters.items())


def test_a_copy_of_a_script_module_has_state_of_its_own(load: Load) -> None:
    model = load("counts_in_a_script", "net")
    model.copy_module()(torch.ones(2))

    assert (model.module.calls, model.module.total.item()) == (0, 0.0)


def test_a_model_is_copied_with_the_compiled_functions_that_it_holds(load: Load) -> None:
    module = load("scripted_already", "WithParts").module

    assert copy_model(module).functions[0] is module.functions[0]


@pytest.mark.parametrize(
    ("name", "entrypoint", "init"),
    [("linear", "Net", {"widht": 3}), ("two_methods", "net", {"x": 1}), ("functions", "add", {"z": 1})],
)
def test_init_that_does_not_fit_is_refused(load: Load, name: str, entrypoint: str, init: dict[str, Any]) -> None:
    with pytest.raises(InitFailed):
        load(name, entrypoint, **init)


def test_a_function_that_fails_as_a_factory_says_so(load: Load) -> None:
    with pytest.raises(InitFailed, match="scaled"):
        load("functions", "scaled_or_not")


def test_an_unknown_init_argument_lists_the_parameters(load: Load) -> None:
    with pytest.raises(InitFailed) as raised:
        load("linear", "Net", widht=3)
    assert raised.value.facts["parameters"] == ["width=4", "bias=True"]
    assert raised.value.facts["line"] == 5


def test_an_init_that_raises_shows_its_line(load: Load) -> None:
    with pytest.raises(InitFailed) as raised:
        load("raises_in_init")
    assert (raised.value.facts["line"], raised.value.facts["source"]) == (8, 'raise ValueError("too narrow")')


def test_the_seed_decides_the_weights(load: Load) -> None:
    first, again, other = load("linear"), load("linear"), load("linear", seed=1)

    assert torch.equal(first.module.layer.weight, again.module.layer.weight)
    assert not torch.equal(first.module.layer.weight, other.module.layer.weight)


@pytest.mark.parametrize("name", ["counts_calls_in_a_buffer", "normalised_weight", "refuses_to_be_copied"])
def test_a_fresh_copy_has_seen_nothing(load: Load, name: str) -> None:
    model = load(name)
    used, x = model.copy_module(), torch.ones(1, 4)
    with torch.no_grad():
        first = used(x)
        used(x)

        assert torch.equal(model.copy_module()(x), first)


def test_python_itself_is_no_state_of_a_source_that_runs_text(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load("runs_a_text")
    monkeypatch.setitem(vars(builtins), "made_meanwhile", 1)
    monkeypatch.setitem(sys.modules, "made_meanwhile", sys)

    with torch.no_grad():
        assert torch.equal(model.copy_module()(torch.ones(2)), torch.full((2,), 2.0))
    assert vars(builtins)["made_meanwhile"] == 1
    assert sys.modules["made_meanwhile"] is sys


def test_what_all_copies_share_is_put_back(load: Load) -> None:
    model = load("keeps_state_in_many_places")
    with torch.no_grad():
        answers = [model.copy_module()(torch.ones(1)).item() for _ in range(3)]
        used = model.copy_module()
        again = [used(torch.ones(1)).item() for _ in range(2)]

    assert answers == [1.0] * 3
    assert again[1] > again[0]


def test_copies_share_their_parameters(load: Load) -> None:
    model = load("linear")

    assert model.copy_module().layer.weight is model.module.layer.weight


def test_a_hook_that_closes_over_the_model_goes_with_the_copy(load: Load) -> None:
    model = load("hooks_itself")
    copied = model.copy_module()
    copied(torch.ones(1, 3))

    assert copied.kept.shape == (1, 3)
    assert [kept.shape for kept in (model.module.kept, model.module.scale, model.module.shift)] == [()] * 3


def test_a_model_that_can_be_neither_copied_nor_made_again_is_to_blame(load: Load) -> None:
    with pytest.raises(InitFailed, match="only one") as raised:
        load("cannot_be_made_again").copy_module()
    assert raised.value.facts["line"] == 15


def test_a_function_is_a_module_without_parameters() -> None:
    assert list(Function(torch.relu).parameters()) == []


def test_a_package_without_the_name_lists_its_modules(installed: Callable[[Source], Source]) -> None:
    source = installed(Source.from_text({"pkg/__init__.py": "", "pkg/net.py": ""}))
    with pytest.raises(EntrypointNotFound) as raised:
        model.load(source, "pkg:Net", Init(), 0)
    assert raised.value.facts["modules"] == ["pkg.net"]
    assert "pkg.net" in raised.value.detail
