"""The options of `tracehouse trace`, and the trace request that they make."""

from pathlib import Path
from typing import Any

import pytest
import typer

from service.cli.example_inputs import Uploads
from service.cli.trace_options import (
    CallOptions,
    ModelOptions,
    RequestOptions,
    SizeOptions,
    TorchOptions,
    TraceCheckOptions,
    spec_of,
)
from tracehouse.spec.trace_spec import TraceSpec


def made(folder: Path, **model: Any) -> TraceSpec:
    """The request for a file net.py in the folder."""
    (folder / "net.py").write_text("def Net(x):\n    return x\n")
    groups = SizeOptions(), TraceCheckOptions(), TorchOptions(), RequestOptions()
    call = CallOptions(input=["1x2"])
    return TraceSpec.model_validate(spec_of(f"{folder}/net.py:Net", call, ModelOptions(**model), *groups, Uploads()))


def test_weights_go_with_all_that_is_said_of_them(tmp_path: Path) -> None:
    file = tmp_path / "w.pt"
    file.touch()
    spec = made(
        tmp_path,
        weights=file,
        weights_key="state.ema",
        weights_rename=["module.=", "=net."],
        weights_strict=False,
        allow_missing=["*.index"],
    )

    assert spec.weights is not None
    assert spec.weights.model_dump() == {
        "file": "w.pt",
        "key": "state.ema",
        "rename": {"module.": "", "": "net."},
        "strict": False,
        "allow_missing": ["*.index"],
    }


def test_an_environment_is_named_in_the_request(tmp_path: Path) -> None:
    assert made(tmp_path, environment="vision").environment == "vision"
    assert made(tmp_path).environment is None


def test_without_a_file_there_are_no_weights(tmp_path: Path) -> None:
    assert made(tmp_path).weights is None


@pytest.mark.parametrize("option", [{"weights_key": "ema"}, {"weights_strict": False}, {"allow_missing": ["a"]}])
def test_what_is_said_of_weights_needs_a_file(tmp_path: Path, option: dict[str, Any]) -> None:
    with pytest.raises(typer.BadParameter, match="--weights FILE"):
        made(tmp_path, **option)


def test_a_renaming_needs_both_sides(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="OLD=NEW"):
        made(tmp_path, weights_rename=["module."])
