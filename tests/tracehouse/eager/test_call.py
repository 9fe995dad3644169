"""Calls: bound to the method's parameters, or refused with the names that it knows."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tracehouse.eager.call import Call, bind
from tracehouse.eager.model import LoadedModel
from tracehouse.errors import ArgumentMismatch, TraceMethodNotFound

Load = Callable[..., LoadedModel]
X = torch.ones(2)


def bound(model: LoadedModel, *args: Any, method: str = "forward", **kwargs: Any) -> Call:
    return bind(model.module, method, model.method_name(method), args, kwargs)


def test_arguments_stand_under_their_names_in_the_methods_order(load: Load) -> None:
    call = bound(load("nested_input"), (X, X), factor=2.0, batch={"scale": X})

    assert list(call.arguments) == ["pair", "batch", "factor", "names", "mask"]
    assert list(call.tensors) == ["pair.0", "pair.1", "batch.scale"]


def test_variadic_arguments_are_a_tuple_and_others_keep_their_own_names(load: Load) -> None:
    assert list(bound(load("functions", "total"), X, X).tensors) == ["parts.0", "parts.1"]
    assert list(bound(load("functions", "keywords"), X, bias=X, extra=X).tensors) == ["x", "bias", "extra"]


@pytest.mark.parametrize(
    ("args", "kwargs", "unknown"), [((), {"z": X}, ["z"]), ((X,), {}, []), ((X, X, X), {}, []), ((X,), {"x": X}, [])]
)
def test_arguments_that_do_not_fit_list_the_parameters(
    load: Load, args: tuple[Any, ...], kwargs: dict[str, Any], unknown: list[str]
) -> None:
    with pytest.raises(ArgumentMismatch) as raised:
        bound(load("functions", "add"), *args, **kwargs)
    facts = raised.value.facts
    assert (facts["parameters"], facts["unknown"]) == (["x", "y"], unknown)
    assert (facts["file"], facts["line"]) == ("functions.py", 4)
    assert ("has no parameter 'z', only x, y" in raised.value.detail) == bool(unknown)


def test_the_signature_is_shown_as_python_writes_it(load: Load) -> None:
    with pytest.raises(ArgumentMismatch) as raised:
        bound(load("takes_long_types"), X)
    shown = "forward(query, key, value=None, *, mask=None, times: int = 2)"
    assert raised.value.detail.startswith(f"{shown} does not take these inputs")


@pytest.mark.parametrize("method", ["embed", "encoder", "parameters", "factor"])
def test_a_method_that_the_model_does_not_define_lists_those_that_it_does(load: Load, method: str) -> None:
    with pytest.raises(TraceMethodNotFound) as raised:
        bound(load("two_methods"), X, method=method)
    assert raised.value.facts["methods"] == ["forward", "decode", "encode"]


def test_a_module_without_forward_is_told_so(load: Load) -> None:
    with pytest.raises(TraceMethodNotFound):
        bound(LoadedModel(torch.nn.Module()), X)


def test_a_builtin_has_arguments_by_their_place() -> None:
    from tracehouse.eager.model import Function

    assert list(bound(LoadedModel(Function(torch.relu)), X).arguments) == ["input0"]


def test_a_call_is_cloned_whole(load: Load) -> None:
    call = bound(load("nested_input"), (X, X), {"scale": X}, 2.0)
    for tensor in call.clone().tensors.values():
        tensor.zero_()

    assert X.tolist() == [1.0, 1.0]


def test_the_eager_model_is_called_as_the_call_says(load: Load) -> None:
    model = load("functions", "keywords")

    assert bound(model, X, extra=X * 3, bias=X).run(model.module).tolist() == [5.0, 5.0]
