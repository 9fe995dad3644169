"""Which artifact of a trace is meant."""

from typing import Any

import pytest
import typer

from service.cli.artifacts import choose_part


def artifact(device: str, **bucket: int) -> dict[str, Any]:
    return {"device": device, "bucket": bucket}


def test_the_only_artifact_needs_no_name_and_one_of_several_does() -> None:
    one, other = artifact("cpu", seq=16), artifact("cpu", seq=32)

    assert choose_part([one], None) is one
    assert choose_part([one, other], "cpu, seq 32") is other
    with pytest.raises(typer.BadParameter, match="--part: 'cpu, seq 16' or 'cpu, seq 32'"):
        choose_part([one, other], None)


def test_a_run_without_a_trace_has_none() -> None:
    with pytest.raises(typer.BadParameter, match="mode eager"):
        choose_part([], None)
