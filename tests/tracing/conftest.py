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

from service.domain.artifact import Artifact, Printout
from service.domain.errors import Failure
from service.domain.printouts import Printouts
from service.domain.tensor import Tensor, split
from service.domain.trace_check import Comparison, Finding, Layer, Verdict
from service.domain.trace_request import Init, TraceRequest, TraceSpec
from service.domain.way import Way
from service.sandbox.cancellation import Cancellation
from service.sandbox.channel import Channel
from service.sandbox.messages import Case, Failed, File, LayerDone, Progress, Trace, Traced, from_tracer
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import TENANT
from workers.tensors import DTYPES, packed
from workers.tracing import child, model
from workers.tracing.limits import TraceLimits
from workers.tracing.model import Model
from workers.tracing.source import Source
from workers.tracing.tracer import OfferedCase
from workers.tracing.worker import Worker

MODELS = Path(__file__).parents[1] / "models"
MIB = 2**20
LIMITS = TraceLimits(
    wall_s=60,
    cpu_s=30,
    memory_mib=4096,
    threads=1,
    log_max_bytes=2**20,
    source_max_bytes=2**26,
    child_threads_max=256,
    child_open_files_max=128,
)

Work = Callable[..., TraceRequest]
ArtifactOf = Callable[..., Artifact]


def text(name: str) -> str:
    return (MODELS / f"{name}.py").read_text()


def spec(name: str, entrypoint: str = "Net", **members: Any) -> dict[str, Any]:
    """A submission of one of tests/models; with `example_inputs` or `methods` among the members."""
    source = {"files": {f"{name}.py": text(name)}, "entrypoint": f"{name}:{entrypoint}"}
    return {"model": "net", "source": source, **members}


def tensor(data: Any, datatype: str = "FP32") -> dict[str, Any]:
    value = torch.tensor(data)
    return {"datatype": datatype, "shape": list(value.shape), "data": data}


# What the model of that name takes.
EVERY_DATATYPE = [
    tensor([1.5], "FP16"),
    tensor([1.5, -2.0], "BF16"),
    tensor([[1e300]], "FP64"),
    tensor(7, "INT64"),
    {"datatype": "UINT8", "shape": [0, 2], "data": []},
    tensor([True, False], "BOOL"),
]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", r"ignore:`torch\.jit\.")


@pytest.fixture
def every_datatype() -> list[Tensor]:
    """One tensor of each, named as it."""
    return packed({datatype.value: torch.tensor([0, 1, 1]).to(dtype) for datatype, dtype in DTYPES.items()})


@dataclass
class Told:
    """What a tracing child said."""

    stages: list[str] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    offered: list[OfferedCase] = field(default_factory=list)
    last: Traced | Failed | None = None

    @property
    def traced(self) -> Traced:
        assert isinstance(self.last, Traced), self.last
        return self.last

    @property
    def failure(self) -> Failure:
        assert isinstance(self.last, Failed), self.last
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


@pytest.fixture
def add(store: Store) -> Callable[..., str]:
    """The id of a request that waits."""

    def add(submitted: dict[str, Any], files: dict[str, bytes] | None = None) -> str:
        blobs = {}
        for name, content in (files or {}).items():
            with store.blobs.stage() as staged:
                staged.write(content)
                blobs[name] = staged.commit()
        request = TraceRequest.submitted(TraceSpec.model_validate(submitted), blobs, torch_version="2", tenant=TENANT)
        return store.trace_requests.add(request, None, queue_max=10).id

    return add


@pytest.fixture
def work(store: Store, torch_zygote: Zygote, add: Callable[..., str]) -> Callable[..., TraceRequest]:
    """The request as it stands after one attempt."""

    def work(
        submitted: dict[str, Any],
        files: dict[str, bytes] | None = None,
        cancellation: Cancellation | None = None,
        **limits: Any,
    ) -> TraceRequest:
        request_id = add(submitted, files)
        worker = Worker(store, torch_zygote, LIMITS.model_copy(update=limits), attempts=2)
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
def installed() -> Iterator[Callable[[Source], Source]]:
    """Sources that can be imported until the test's end."""
    sources: list[Source] = []

    def install(source: Source) -> Source:
        source.install()
        sources.append(source)
        return source

    yield install
    for source in sources:
        source.uninstall()


@pytest.fixture
def load(installed: Callable[[Source], Source]) -> Callable[..., Model]:
    """The model of one of tests/models."""

    def load(name: str, entrypoint: str = "Net", *args: Any, seed: int = 0, **kwargs: Any) -> Model:
        source = installed(Source.inline({f"{name}.py": text(name)}))
        return model.load(source, f"{name}:{entrypoint}", Init(args=list(args), kwargs=kwargs), seed)

    return load


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Told]]:
    """The tracing child's program, run in this process."""

    def run(submitted: dict[str, Any], files: dict[str, bytes] | None = None, way: Way | None = None) -> Told:
        ours, theirs = socket.socketpair()
        told = Told()
        listener = threading.Thread(target=_listen, args=(Channel(ours), told))
        listener.start()
        descriptors = [_opened(tmp_path / name, content) for name, content in (files or {}).items()]
        parsed = TraceSpec.model_validate(submitted)
        Channel(ours).send(
            Trace(
                spec=parsed,
                way=way or parsed.way,
                files={name: place for place, name in enumerate(files or {})},
                device="cpu",
                threads=1,
                source_max_bytes=MIB,
            ).model_dump(mode="json")
        )
        child.main(Channel(theirs), descriptors)
        listener.join(30)
        return told

    yield run
    # A child ends with its source installed; this process goes on.
    for finder in [finder for finder in sys.meta_path if isinstance(finder, Source)]:
        finder.uninstall()


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
