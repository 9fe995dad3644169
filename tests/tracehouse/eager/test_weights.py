"""Weights: read without running what is in them, and fitted or refused by name and shape."""

import io
from collections.abc import Callable
from typing import Any

import pytest
import safetensors.torch
import torch

from tracehouse.eager import weights
from tracehouse.eager.model import LoadedModel
from tracehouse.errors import WeightsMismatch, WeightsUnreadable

Load = Callable[..., LoadedModel]


def saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


class Payload:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return print, ("unpickled",)


@pytest.mark.parametrize("wrapper", [None, "state_dict", "model_state_dict", "model"])
def test_a_torch_file_is_read_also_where_training_wrapped_it(wrapper: str | None) -> None:
    state = {"layer.bias": torch.ones(3)}
    content = state if wrapper is None else {wrapper: state, "epoch": 7, "optimizer": {"lr": 0.1}}

    assert torch.equal(weights.read(saved(content), "w.pt")["layer.bias"], torch.ones(3))


def test_a_safetensors_file_is_read() -> None:
    file = io.BytesIO(safetensors.torch.save({"layer.bias": torch.ones(3)}))

    assert list(weights.read(file, "w.safetensors")) == ["layer.bias"]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("w.safetensors", io.BytesIO(b"nothing")),
        ("w.pt", io.BytesIO(b"nothing")),
        ("w.pt", io.BytesIO(b"")),
        ("w.pt", saved({"layer.bias": Payload()})),
        ("w.pt", saved([torch.ones(3)])),
        ("w.pt", saved({"model": {"a": torch.ones(1)}, "state_dict": {"a": torch.ones(1)}})),
    ],
)
def test_what_is_no_state_dict_is_unreadable(name: str, file: io.BytesIO, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WeightsUnreadable):
        weights.read(file, name)
    assert "unpickled" not in capsys.readouterr().out


def test_weights_are_loaded(load: Load) -> None:
    module = load("linear").module
    fit = weights.fit(module, {"layer.weight": torch.ones(3, 4), "layer.bias": torch.zeros(3)}, strict=True)

    assert fit == weights.Fit()
    assert module(torch.ones(1, 4)).tolist() == [[4.0, 4.0, 4.0]]


def test_names_that_do_not_fit_are_listed(load: Load) -> None:
    with pytest.raises(WeightsMismatch) as raised:
        weights.fit(load("linear").module, {"layer.bias": torch.ones(3), "other": torch.ones(1)}, strict=True)
    assert (raised.value.facts["missing"], raised.value.facts["unexpected"]) == (["layer.weight"], ["other"])


def test_names_that_do_not_fit_are_reported_where_not_strict(load: Load) -> None:
    fit = weights.fit(load("linear").module, {"layer.bias": torch.ones(3), "other": torch.ones(1)}, strict=False)

    assert (fit.missing, fit.unexpected) == (["layer.weight"], ["other"])


def test_another_shape_is_a_mismatch_even_where_not_strict(load: Load) -> None:
    with pytest.raises(WeightsMismatch) as raised:
        weights.fit(load("linear").module, {"layer.bias": torch.ones(5)}, strict=False)
    assert raised.value.facts["mismatched"] == [{"name": "layer.bias", "expected": [3], "actual": [5]}]


class Whole(torch.nn.Linear):
    pass


def test_a_pickled_module_is_refused_in_a_line_with_a_remedy() -> None:
    with pytest.raises(WeightsUnreadable) as raised:
        weights.read(saved(Whole(1, 1)), "w.pt")
    assert "Whole" in raised.value.detail
    assert "\n" not in raised.value.detail
    assert "weights_only" not in raised.value.detail
    assert "state_dict" in raised.value.facts["remedy"]
