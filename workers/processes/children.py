"""The children of one attempt: what each of them is forked with, and what ends all of them."""

import time
from contextlib import ExitStack, suppress

from service.domain.trace_request import TraceRequest
from service.protocol.bounds import MESSAGE_MAX_BYTES
from service.protocol.tracer import Trace
from service.sandbox.cancellation import Cancellation
from service.sandbox.child import Child, Exit
from service.sandbox.limits import Profile
from service.sandbox.zygote import Zygote
from service.storage.blobs import Blobs
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import DeviceName
from workers.limits import TraceLimits
from workers.printed_log import PrintedLog
from workers.processes.eager import REFERENCE, EagerProcess
from workers.processes.exits import END_S

_LOG_TAIL_BYTES = 4000


class Children:
    """All have until the same moment, and end when the attempt is told to stop. What one prints may be `printed`."""

    def __init__(
        self,
        request: TraceRequest,
        blobs: Blobs,
        zygote: Zygote,
        limits: TraceLimits,
        cancellation: Cancellation,
        printed: PrintedLog,
    ) -> None:
        self._request = request
        self._blobs = blobs
        self._zygote = zygote
        self.limits = limits
        self.cancellation = cancellation
        self.until = time.monotonic() + limits.wall_s
        self.printed = printed
        self.exits: list[Exit] = []  # of those that were let to end

    def forked(
        self,
        held: ExitStack,
        program: str,
        device: DeviceName,
        *files: int,
        profile: Profile = "trace",
        printing: bool = False,
    ) -> Child:
        """Alive until `held` is left. One child's prints are the request's log: the others would say the same again."""
        if profile == "trace":
            # Opened once more for each child: of a file that two share, one would move the place where the other reads.
            opened = [held.enter_context(self._blobs.open(blob.digest)) for blob in self._request.files.values()]
            files = tuple(file.fileno() for file in opened)
        child = self._zygote.fork(
            program,
            self.limits.of_child(device),
            files,
            profile=profile,
            on_log=self.printed.write if printing else None,
            log_max_bytes=_LOG_TAIL_BYTES,  # the log above keeps the rest
            header_max_bytes=MESSAGE_MAX_BYTES,
        )
        held.enter_context(child)
        held.enter_context(self.cancellation.calls(child.kill))
        return child

    def uploaded(self, name: str, most_bytes: int) -> bytes | None:
        """One of the request's files; None where it has more bytes."""
        blob = self._request.files[name]
        if blob.byte_size > most_bytes:
            return None
        with self._blobs.open(blob.digest) as file:
            return file.read()

    def told_to_trace(self, device: DeviceName, way: Conversion, threads: int) -> Trace:
        """What a child that has the submission is sent first."""
        return Trace(
            spec=self._request.spec,
            way=way,
            files={name: place for place, name in enumerate(self._request.files)},
            device=device,
            threads=threads,
            source_max_bytes=self.limits.source_max_bytes,
        )

    def eager(self, held: ExitStack, device: DeviceName, way: Conversion) -> EagerProcess:
        """The eager model, which has begun to load."""
        side = EagerProcess(self.forked(held, REFERENCE, device), self.limits, self.cancellation, self.until)
        side.start(self.told_to_trace(device, way, self.limits.threads_per_side))
        return side

    def let_end(self, child: Child) -> None:
        """A child that has said its last word prints what it still holds, and goes; else it is killed."""
        with suppress(TimeoutError):
            self.exits.append(child.wait(min(self.until, time.monotonic() + END_S)))
