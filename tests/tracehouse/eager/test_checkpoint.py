"""Checkpoints: read without running what is in them, and every state dict found by its key."""

import io
from collections.abc import Callable
from typing import Any

import pytest
import safetensors.torch
import torch

from tracehouse.eager import checkpoint
from tracehouse.errors import WeightsUnreadable

STATE = {"layer.bias": torch.ones(3)}


def saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


class Payload:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return print, ("unpickled",)


def test_a_file_may_be_a_state_dict_itself() -> None:
    read = checkpoint.read(saved(STATE), "w.pt")

    assert torch.equal(read.states[""]["layer.bias"], torch.ones(3))


def test_a_safetensors_file_is_read() -> None:
    file = io.BytesIO(safetensors.torch.save(STATE))

    assert list(checkpoint.read(file, "w.safetensors").states[""]) == ["layer.bias"]


def test_every_state_dict_of_a_file_has_a_key() -> None:
    other = {"layer.bias": torch.zeros(3)}
    read = checkpoint.read(
        saved({"state": {"model": STATE}, "ema": other, "epoch": 7, "optimizer": {"state": {0: other}}}), "w.pt"
    )

    assert {key: float(state["layer.bias"].sum()) for key, state in read.states.items()} == {"state.model": 3, "ema": 0}
    assert read.names == ["state", "ema", "epoch", "optimizer"]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("w.safetensors", io.BytesIO(b"nothing")),
        ("w.pt", io.BytesIO(b"nothing")),
        ("w.pt", io.BytesIO(b"")),
        ("w.pt", saved({"layer.bias": Payload()})),
        ("w.pt", saved([torch.ones(3)])),
        ("w.pt", saved({"epoch": 7, "optimizer": {"lr": 0.1}})),
    ],
)
def test_what_is_no_state_dict_is_unreadable(name: str, file: io.BytesIO, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WeightsUnreadable):
        checkpoint.read(file, name)
    assert "unpickled" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("held", "why"),
    [
        ({"a.b": STATE, "a": {"b": {"layer.bias": torch.zeros(3)}}}, "two state dicts under 'a.b'"),
        ({f"epoch{number}": STATE for number in range(51)}, "over 50 state dicts"),
    ],
    ids=["two under one key", "too many"],
)
def test_no_state_dict_is_dropped_without_a_word(held: dict[str, Any], why: str) -> None:
    with pytest.raises(WeightsUnreadable, match=why) as raised:
        checkpoint.read(saved(held), "w.pt")
    assert raised.value.facts["remedy"] == "save the state dict of the model alone"


class Whole(torch.nn.Linear):
    pass


def test_a_pickled_module_is_refused_in_a_line_with_a_remedy() -> None:
    with pytest.raises(WeightsUnreadable) as raised:
        checkpoint.read(saved(Whole(1, 1)), "w.pt")
    assert "Whole" in raised.value.detail
    assert "\n" not in raised.value.detail
    assert "weights_only" not in raised.value.detail
    assert "state_dict" in raised.value.facts["remedy"]
