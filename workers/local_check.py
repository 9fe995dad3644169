"""A local check: one trace request, attempted by this process and its children, with no store and no engine beside it.

It is the attempt that a service makes: the same children, the same limits, the same verification by separate processes.
"""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, Self

from pydantic import JsonValue

from service.domain.api_key import DEFAULT_TENANT
from service.domain.outcome import NotTraced, Outcome
from service.domain.trace_request import Stage, TraceRequest
from service.environments.environments import Environments
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.storage.blobs import Blobs, StagedBlob
from service.storage.local_blobs import LocalBlobs
from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.environment import EnvironmentRef
from tracehouse.byte_units import MIB
from tracehouse.errors import ServiceError
from tracehouse.spec.trace_spec import TraceSpec
from workers.attempt import Attempt
from workers.limits import TraceLimits

# The kind of an event, and its data, as `GET /trace/{id}/events` sends them.
OnEvent = Callable[[str, Mapping[str, JsonValue]], object]

_COPIED_BYTES = MIB


class LocalRecord:
    """The record of a local attempt. It calls `on_event` as the attempt goes on, and `on_log` with what is printed."""

    def __init__(self, blobs: Blobs, on_event: OnEvent, on_log: Callable[[str], object]) -> None:
        self._blobs = blobs
        self._on_event = on_event
        self._on_log = on_log

    @property
    def blobs(self) -> Blobs:
        return self._blobs

    def stage_file(self) -> StagedBlob:
        return self._blobs.stage()

    def report_stage(self, stage: Stage, progress: float) -> None:
        self._on_event("stage", {"stage": stage.value, "progress": progress})

    def report_layer(self, layer: dict[str, JsonValue]) -> None:
        self._on_event("layer", layer)

    def append_log(self, text: str) -> None:
        self._on_log(text)


class LocalCheck:
    """Attempts trace requests. As a context manager, it keeps their files until the block ends, and then removes them.

    `environments` has the packages that a request may ask for besides those that are installed here.
    """

    def __init__(self, zygote: Zygote, environments: Environments, limits: TraceLimits) -> None:
        self._zygote = zygote
        self._environments = environments
        self._limits = limits
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        directory = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tracehouse-check-"))
        self._blobs = LocalBlobs(Path(directory))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(
        self,
        spec: TraceSpec,
        files: Mapping[str, Path],
        environment: EnvironmentRef | None,
        cancellation: Cancellation,
        *,
        on_event: OnEvent,
        on_log: Callable[[str], object],
    ) -> Outcome:
        """Return the outcome. Raises AttemptStopped if the cancellation is set meanwhile."""
        try:
            stored = {name: self._store(path) for name, path in files.items()}
            request = TraceRequest.new(
                spec, stored, torch_version=version("torch"), tenant=DEFAULT_TENANT, environment=environment
            )
            record = LocalRecord(self._blobs, on_event, on_log)
            return Attempt(request, record, self._zygote, self._environments, self._limits, cancellation).run()
        except ServiceError as error:  # a fault of the machine, such as a full disk: nobody is there to try again
            return NotTraced(failure=error.failure())

    def open(self, blob: BlobRef) -> BinaryIO:
        """Open a file of the outcome."""
        return self._blobs.open(blob.digest)

    def _store(self, path: Path) -> BlobRef:
        with path.open("rb") as file, self._blobs.stage() as staged:
            while data := file.read(_COPIED_BYTES):
                staged.write(data)
            return staged.commit()
