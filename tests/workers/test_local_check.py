"""A local check: what a service finds out about a model is found out with no service, and nothing is left."""

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from service.domain.errors import DiskFull
from service.domain.outcome import NotTraced, Outcome, Succeeded
from service.domain.trace_request import Stage
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.storage.blobs import StagedBlob
from tests.conftest import NO_ENVIRONMENTS, PATIENCE_S
from tests.submissions import spec, tensor
from tests.workers.conftest import LIMITS, ArtifactOf, unhurried
from tracehouse.artifact.manifest import Artifact
from tracehouse.findings.trace_check import Layer
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.trace_spec import TraceSpec
from workers.local_check import LocalCheck, OnEvent
from workers.processes.exits import AttemptStopped

X = tensor([[1.0, 2.0, 3.0, 4.0]])
LINEAR = {**spec("linear", example_inputs=[X]), "weights": {"file": "weights.safetensors"}}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    import torch
    from safetensors.torch import save_file

    path = tmp_path / "weights.safetensors"
    save_file({"layer.weight": torch.ones(3, 4), "layer.bias": torch.zeros(3)}, path)
    return {path.name: path}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of all temporary files."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


@pytest.fixture
def check(torch_zygote: Zygote, temporary: Path) -> LocalCheck:
    return LocalCheck(torch_zygote, NO_ENVIRONMENTS, LIMITS)


def run(
    opened: LocalCheck,
    submitted: dict[str, Any],
    files: dict[str, Path] | None = None,
    cancellation: Cancellation | None = None,
    on_event: OnEvent = lambda *_: None,
    on_log: Callable[[str], object] = lambda _: None,
) -> Outcome:
    parsed = TraceSpec.model_validate(unhurried(submitted))
    return opened.run(parsed, files or {}, None, cancellation or Cancellation(), on_event=on_event, on_log=on_log)


def found(artifact: Artifact) -> tuple[Any, ...]:
    """What was found out, without what each check draws anew and measures."""
    method = artifact.contract.method("forward")
    regions = [(region.spans, region.basis, region.beyond) for region in method.regions]
    return artifact.check.verdict, artifact.check.findings, method.inputs, method.outputs, regions


def test_it_finds_out_what_a_service_finds_out(check: LocalCheck, artifact: ArtifactOf, files: dict[str, Path]) -> None:
    stored = artifact(LINEAR, {name: path.read_bytes() for name, path in files.items()})
    with check as opened:
        outcome = run(opened, LINEAR, files)

    assert isinstance(outcome, Succeeded)
    [made] = outcome.artifacts
    assert found(made) == found(stored)


def test_it_rejects_what_a_service_rejects_by_the_same_findings(check: LocalCheck, artifact: ArtifactOf) -> None:
    branching = spec("branches_on_data", example_inputs=[X])
    stored = artifact(branching)
    with check as opened:
        outcome = run(opened, branching)

    assert isinstance(outcome, Succeeded)
    places = {(one.kind, one.file, one.line, one.effect) for one in outcome.findings}
    assert outcome.verdict is stored.check.verdict is Verdict.REJECTED
    assert places == {(one.kind, one.file, one.line, one.effect) for one in stored.check.findings}
    assert ("baked-value", "branches_on_data.py", 6, "harmful") in places


def test_its_files_are_there_until_the_block_ends(check: LocalCheck, temporary: Path, files: dict[str, Path]) -> None:
    with check as opened:
        outcome = run(opened, LINEAR, files)
        assert isinstance(outcome, Succeeded)
        with opened.open(outcome.artifacts[0].archive) as archive:
            assert archive.read(2) == b"PK"

    assert [*temporary.iterdir()] == []


def test_it_tells_the_stages_in_order_and_what_is_printed(check: LocalCheck) -> None:
    events: list[tuple[str, Any]] = []
    printed: list[str] = []
    with check as opened:
        run(
            opened,
            spec("prints", example_inputs=[X]),
            on_event=lambda kind, data: events.append((kind, data)),
            on_log=printed.append,
        )

    stages = [Stage(data["stage"]) for kind, data in events if kind == "stage"]
    assert stages == sorted(stages, key=[*Stage].index)
    assert stages[-1] is Stage.STORING
    assert "".join(printed).startswith("imported\ncalled \\x1b[2J\n")


def test_it_tells_how_far_the_check_is_and_what_is_left_of_its_budget(check: LocalCheck) -> None:
    events: list[tuple[str, Any]] = []
    with check as opened:
        run(
            opened,
            spec("linear", example_inputs=[X]),
            on_event=lambda kind, data: events.append((kind, data)),
        )

    layers = [data for kind, data in events if kind == "layer"]
    left = [layer["budget_left_s"] for layer in layers]
    assert {layer["name"] for layer in layers} == {*get_args(Layer.model_fields["name"].annotation)}
    assert left == sorted(left, reverse=True)
    assert 0 < left[-1] < left[0]
    done = [data["progress"] for _, data in events]
    assert done == sorted(done)
    assert [layer["progress"] for layer in layers][-1] == 0.8


def test_it_says_why_a_model_cannot_be_traced(check: LocalCheck) -> None:
    with check as opened:
        outcome = run(opened, spec("raises_in_forward", example_inputs=[X]))

    assert isinstance(outcome, NotTraced)
    assert (outcome.failure.slug, outcome.failure.facts["line"]) == ("model-raised", 9)


def test_a_fault_of_the_machine_is_an_outcome(
    check: LocalCheck, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_no_room(*_: object) -> None:
        raise DiskFull("there is too little room on the disk")

    monkeypatch.setattr(StagedBlob, "write", find_no_room)
    with check as opened:
        outcome = run(opened, LINEAR, files)

    assert isinstance(outcome, NotTraced)
    assert outcome.failure.slug == "disk-full"


def test_it_can_be_stopped(check: LocalCheck, temporary: Path) -> None:
    cancellation, stopped, hangs = Cancellation(), threading.Event(), threading.Event()

    def run_it() -> None:
        with check as opened, pytest.raises(AttemptStopped):
            run(opened, spec("hangs_aloud", example_inputs=[X]), None, cancellation, on_log=lambda _: hangs.set())
        stopped.set()

    working = threading.Thread(target=run_it)
    working.start()
    assert hangs.wait(PATIENCE_S)
    cancellation.set("cancelled")
    working.join(PATIENCE_S)

    assert stopped.is_set()
    assert [*temporary.iterdir()] == []
