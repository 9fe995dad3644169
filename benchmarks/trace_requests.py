"""Trace requests done as the service does them, in its children, without the service: what the benchmarks measure."""

import io
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from service.api import inference_json
from service.api.inference_json import Expected
from service.domain.trace_request import TraceRequest
from service.environments.environments import Environments
from service.sandbox import choose_tier
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import MethodContract
from tracehouse.errors import CallerError, Failure
from tracehouse.spec.trace_spec import TraceSpec
from workers.attempt import MODULES
from workers.limits import TraceLimits
from workers.worker import Worker

TENANT = "default"
LIMITS = TraceLimits(
    wall_s=600,
    cpu_s=1200,
    memory_mib=8192,
    threads=2,
    log_max_bytes=2**20,
    source_max_bytes=2**20,
    child_threads_max=256,
    child_open_files_max=128,
)


@dataclass(frozen=True)
class Done:
    """A trace request at its end: why it failed, or what it made. `archive` is the artifact's file."""

    failure: Failure | None
    artifact: Artifact | None
    archive: bytes
    seconds: float

    def loaded(self) -> Any:
        """The artifact as a module, new each time."""
        return torch.jit.load(io.BytesIO(self.archive))


class Requests:
    """Any number of threads may share one."""

    def __init__(self, store: Store, zygote: Zygote) -> None:
        self._store = store
        self._worker = Worker(store, zygote, Environments(Path("/nonexistent")), LIMITS, attempts=1)

    def do(self, submission: dict[str, Any], files: Mapping[str, bytes] = MappingProxyType({})) -> Done:
        spec = TraceSpec.model_validate(submission)
        blobs = {name: self._keep(data) for name, data in files.items()}
        request = TraceRequest.new(spec, blobs, torch_version=torch.__version__, tenant=TENANT)
        request_id = self._store.trace_requests.add(request).id
        began = time.perf_counter()
        self._worker.run(request_id, Cancellation())
        seconds = time.perf_counter() - began
        ended = self._store.trace_requests.get(TENANT, request_id)
        if not ended.artifacts:
            return Done(ended.failure, None, b"", seconds)
        artifact = self._store.artifacts.get(TENANT, ended.artifacts[0].digest)
        with self._store.blobs.open(artifact.archive.digest) as archive:
            return Done(None, artifact, archive.read(), seconds)

    def _keep(self, data: bytes) -> BlobRef:
        staged = self._store.blobs.stage()
        staged.write(data)
        return staged.commit()


@contextmanager
def requests(preload: Path | None = None) -> Iterator[Requests]:
    """`preload` is a file that the process runs from which all children are forked."""
    with (
        tempfile.TemporaryDirectory() as state,
        Zygote(MODULES, preload, tier=choose_tier.choose(), forks_often=True) as zygote,
    ):
        store = Store.open(f"sqlite:///{state}/tracehouse.db", (Path(state) / "blobs").as_uri())
        yield Requests(store, zygote)
        store.close()


def takes(contract: MethodContract, body: dict[str, Any]) -> bool:
    """As the inference routes decide it."""
    try:
        contract.accept(inference_json.read(body, Expected.of([contract])).tensors)
    except CallerError:
        return False
    return True
