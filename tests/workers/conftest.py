import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch

from service.domain.quotas import NO_QUOTAS, Quotas
from service.domain.trace_request import TraceRequest
from service.protocol.messages import FailureReply
from service.protocol.tracer import Case, File, LayerDone, Progress, Trace, Traced, from_tracer
from service.sandbox.cancellation import Cancellation
from service.sandbox.channel import Channel
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, PATIENCE_S, TENANT
from tests.loaded_models import every_datatype, installed, load, objects_set_aside, pytest_configure
from tracehouse.artifact.manifest import Artifact, Printout
from tracehouse.artifact.printouts import Printouts
from tracehouse.eager.source import Source
from tracehouse.errors import Failure
from tracehouse.findings.comparison import Comparison
from tracehouse.findings.finding import Finding
from tracehouse.findings.trace_check import Layer
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import TraceSpec
from tracehouse.tensors.tensor import split
from workers.limits import TraceLimits
from workers.processes.tracer import OfferedCase
from workers.programs import tracer
from workers.worker import Worker

MIB = 2**20
BUDGET_S = 120.0
LIMITS = TraceLimits(
    wall_s=600,
    cpu_s=30,
    memory_mib=4096,
    threads=1,
    log_max_bytes=2**20,
    source_max_bytes=2**26,
    child_threads_max=256,
    child_open_files_max=128,
)

__all__ = ["every_datatype", "installed", "load", "objects_set_aside", "pytest_configure"]

Work = Callable[..., TraceRequest]
ArtifactOf = Callable[..., Artifact]


@dataclass
class Told:
    """What a tracing child said."""

    stages: list[str] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    offered: list[OfferedCase] = field(default_factory=list)
    last: Traced | FailureReply | None = None

    @property
    def traced(self) -> Traced:
        assert isinstance(self.last, Traced), self.last
        return self.last

    @property
    def failure(self) -> Failure:
        assert isinstance(self.last, FailureReply), self.last
        return self.last.failure

    @property
    def verdict(self) -> Verdict:
        return self.traced.check.verdict

    @property
    def findings(self) -> dict[str, Finding]:
        return {finding.kind: finding for finding in self.traced.check.findings}

    @property
    def comparisons(self) -> dict[str, Comparison]:
        return {comparison.case: comparison for comparison in self.traced.check.comparisons}

    @property
    def printouts(self) -> list[Printout]:
        return read_printouts(self.files["printouts"])


def read_printouts(data: bytes) -> list[Printout]:
    shown = Printouts(BytesIO(data), "sha256:of it")
    return [shown.read(entry.kind, entry.method, entry.submodule) for entry in shown.entries]


def unhurried(submitted: dict[str, Any]) -> dict[str, Any]:
    """Give the check more time than it needs on a busy machine, unless the test itself says how long it has."""
    check = submitted.get("check", {})
    return submitted if "budget" in check else {**submitted, "check": {"budget_s": BUDGET_S, **check}}


@pytest.fixture(autouse=True)
def show_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Where a process of a trace fails by a fault of its program, its log has the traceback: pytest shows it then."""
    yield
    for record in caplog.get_records("call"):
        if log := getattr(record, "log", ""):
            print(log)


@pytest.fixture
def add(store: Store) -> Callable[..., str]:
    """The id of a request that waits."""

    def add(submitted: dict[str, Any], files: dict[str, bytes] | None = None) -> str:
        blobs = {}
        for name, content in (files or {}).items():
            with store.blobs.stage() as staged:
                staged.write(content)
                blobs[name] = staged.commit()
        request = TraceRequest.new(TraceSpec.model_validate(submitted), blobs, torch_version="2", tenant=TENANT)
        return store.trace_requests.add(request, None, queue_max=10).id

    return add


@pytest.fixture
def work(store: Store, torch_zygote: Zygote, add: Callable[..., str]) -> Callable[..., TraceRequest]:
    """The request as it stands after one attempt."""

    def work(
        submitted: dict[str, Any],
        files: dict[str, bytes] | None = None,
        cancellation: Cancellation | None = None,
        quotas: Quotas = NO_QUOTAS,
        **limits: Any,
    ) -> TraceRequest:
        request_id = add(unhurried(submitted), files)
        bounds = LIMITS.model_copy(update=limits)
        worker = Worker(store, torch_zygote, NO_ENVIRONMENTS, bounds, attempts=2, quotas=quotas)
        worker.run(request_id, cancellation or Cancellation())
        return store.trace_requests.get(TENANT, request_id)

    return work


@pytest.fixture
def artifact(work: Work, store: Store) -> ArtifactOf:
    """What is stored for a submission."""

    def artifact(submitted: dict[str, Any], files: dict[str, bytes] | None = None) -> Artifact:
        request = work(submitted, files)
        assert request.failure is None, request.failure
        return store.artifacts.get(TENANT, request.artifacts[0].digest)

    return artifact


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Told]]:
    """The tracing child's program, run in this process."""

    def run(
        submitted: dict[str, Any],
        files: dict[str, bytes] | None = None,
        conversion: Conversion | None = None,
        budget_most_s: float = BUDGET_S,
        archive_file: int | None = None,
    ) -> Told:
        ours, theirs = socket.socketpair()
        told = Told()
        listener = threading.Thread(target=_listen, args=(Channel(ours), told))
        listener.start()
        descriptors = [_opened(tmp_path / name, content) for name, content in (files or {}).items()]
        parsed = TraceSpec.model_validate(unhurried(submitted))
        Channel(ours).send(
            Trace(
                spec=parsed,
                conversion=conversion or parsed.conversion,
                files={name: place for place, name in enumerate(files or {})},
                device="cpu",
                threads=1,
                source_max_bytes=MIB,
                budget_most_s=budget_most_s,
                archive_file=None if archive_file is None else len(descriptors),
            ).model_dump(mode="json")
        )
        tracer.main(Channel(theirs), descriptors if archive_file is None else [*descriptors, archive_file])
        listener.join(PATIENCE_S)
        return told

    yield run
    # A child ends with its source installed, and maybe without fast paths; this process goes on.
    torch.backends.mha.set_fastpath_enabled(True)
    for finder in [finder for finder in sys.meta_path if isinstance(finder, Source)]:
        finder.uninstall()


@pytest.fixture(scope="module")
def _told() -> dict[str, Told]:
    """What submissions gave that were run before, by their text."""
    return {}


@pytest.fixture
def run_once(run: Callable[..., Told], _told: dict[str, Told]) -> Callable[[dict[str, Any]], Told]:
    """As `run`, for tests that only read what is told: a file runs the same submission once."""

    def run_once(submitted: dict[str, Any]) -> Told:
        text = json.dumps(submitted)
        if text not in _told:
            _told[text] = run(submitted)
        return _told[text]

    return run_once


def _opened(path: Path, content: bytes) -> int:
    path.write_bytes(content)
    return os.open(path, os.O_RDONLY)


def _listen(channel: Channel, told: Told) -> None:
    while told.last is None:
        header, body = channel.receive()
        match message := from_tracer.validate_python(header):
            case Progress():
                told.stages.append(message.stage)
            case LayerDone():
                told.layers.append(message.layer)
            case File():
                told.files[message.name] = bytes(body)
            case Case():
                told.offered.append(OfferedCase(message.name, message.method, split(message.inputs, body)))
            case _:
                told.last = message
