"""Children: the processes of one attempt, what each of them is forked with, and what ends all of them."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self

from service.domain.trace_request import TraceRequest
from service.protocol.bounds import MESSAGE_MAX_BYTES
from service.protocol.tracer import Trace
from service.sandbox.cancellation import Cancellation
from service.sandbox.child import Child, Exit
from service.sandbox.limits import Profile
from service.sandbox.zygote import Zygote
from service.storage.blobs import Blobs, StagedBlob
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import DeviceName
from tracehouse.step_times import StepTime, step
from workers.limits import TraceLimits
from workers.printed_log import PrintedLog
from workers.processes.artifact import RUNNER, ArtifactProcess
from workers.processes.eager import REFERENCE, EagerProcess
from workers.processes.exits import EXIT_S

_LOG_TAIL_BYTES = 4000
# So many killed children are waited for together. Each has a few descriptors until then.
_KILLED_MAX = 8
# A named budget of a check is at most this part of the time that is left. Chosen: what comes beside the check and after
# it takes less than as much again.
_SHARE_OF_BUDGET = 1 / 3


class Children:
    """The children of one attempt. They share one deadline, and are killed when the attempt is cancelled.

    As a context manager, it ends all of them. A child that is killed before takes the kernel a moment, because its
    memory is freed; it is waited for later, when the attempt has nothing else to do.
    """

    def __init__(
        self,
        request: TraceRequest,
        blobs: Blobs,
        zygote: Zygote,
        packages: Sequence[str],
        limits: TraceLimits,
        cancellation: Cancellation,
        printed_log: PrintedLog,
    ) -> None:
        self._request = request
        self._blobs = blobs
        self._zygote = zygote
        self._packages = packages
        self.limits = limits
        self.cancellation = cancellation
        self.until = time.monotonic() + limits.wall_s
        self.printed_log = printed_log
        self.exits: list[Exit] = []  # of the children that ran the submitted code and ended by themselves
        self.tracer_steps: list[StepTime] = []  # of all tracers that traced
        self.processor_s: dict[str, float] = {}  # what all children used that were released, by program
        self._killed: list[tuple[str, Child]] = []  # with their programs, until they are released

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._release_killed()

    def fork(
        self,
        stack: ExitStack,
        program: str,
        device: DeviceName,
        *files: int,
        profile: Profile = "trace",
        printing: bool = False,
    ) -> Child:
        """Fork a child that is killed when the stack is closed. With profile "trace" it gets the request's files, which
        come before the others, and the packages of its environment.

        Only one child's prints go to the request's log: the others would print the same again.
        """
        if profile == "trace":
            # Opened once more for each child: in a shared file, one child would move the place where the other reads.
            opened = [stack.enter_context(self._blobs.open(blob.digest)) for blob in self._request.files.values()]
            files = (*(file.fileno() for file in opened), *files)
        child = self._zygote.fork(
            program,
            self.limits.for_child(device),
            files,
            profile=profile,
            packages=self._packages if profile == "trace" else (),
            on_log=self.printed_log.write if printing else None,
            log_max_bytes=_LOG_TAIL_BYTES,  # the log above has the rest
            header_max_bytes=MESSAGE_MAX_BYTES,
        )
        stack.callback(self._kill, program, child, device)
        stack.enter_context(self.cancellation.calls(child.kill))
        return child

    def fork_with(self, stack: ExitStack, program: str, device: DeviceName, *staged: StagedBlob) -> Child:
        """Fork a child that gets these files and nothing of the request, and is killed when the stack is closed."""
        with ExitStack() as opened:
            files = [opened.enter_context(one.open()).fileno() for one in staged]
            return self.fork(stack, program, device, *files, profile="infer")

    def read_upload(self, name: str, most_bytes: int) -> bytes | None:
        """Return one of the request's files; None where it has more bytes than that."""
        blob = self._request.files[name]
        if blob.byte_size > most_bytes:
            return None
        with self._blobs.open(blob.digest) as file:
            return file.read()

    def trace_message(
        self,
        device: DeviceName,
        conversion: Conversion,
        threads: int,
        *,
        has_archive: bool = False,
        has_archive_file: bool = False,
    ) -> Trace:
        """Return the first message to a child that runs the submission.

        With `has_archive`, an archive follows the request's files, and is checked in place of a new one. With
        `has_archive_file`, the file does that a new one is written into.
        """
        return Trace(
            spec=self._request.spec,
            conversion=conversion,
            files={name: place for place, name in enumerate(self._request.files)},
            device=device,
            threads=threads,
            source_max_bytes=self.limits.source_max_bytes,
            budget_most_s=self.budget_most_s,
            archive=len(self._request.files) if has_archive else None,
            archive_file=len(self._request.files) if has_archive_file else None,
        )

    @property
    def budget_most_s(self) -> float:
        """The most seconds that a named budget may be for a check that begins now, so that the attempt ends in time."""
        return max(0.0, self.until - time.monotonic()) * _SHARE_OF_BUDGET

    def start_eager(self, stack: ExitStack, device: DeviceName, conversion: Conversion) -> EagerProcess:
        """Return the process of the eager model, which has begun to load."""
        eager = EagerProcess(self.fork(stack, REFERENCE, device), self.limits, self.cancellation, self.until)
        eager.start(self.trace_message(device, conversion, self.limits.threads_per_process))
        return eager

    def fork_artifact(self, stack: ExitStack, device: DeviceName, *staged: StagedBlob) -> ArtifactProcess:
        """Return the process of an archive, and of golden cases where they are given too. It is not loaded yet."""
        child = self.fork_with(stack, RUNNER, device, *staged)
        return ArtifactProcess(child, self.limits, self.cancellation, self.until)

    def wait_for_exit(self, child: Child) -> None:
        """Let a child that has sent its last message print what it still has and end; later it is killed.

        It has ended when this returns.
        """
        with step("end of the process"):
            try:
                self.exits.append(child.wait(min(self.until, time.monotonic() + EXIT_S)))
            except TimeoutError:
                child.close()

    def _kill(self, program: str, child: Child, device: DeviceName) -> None:
        child.kill()
        self._killed.append((program.rpartition(".")[2], child))
        if device != "cpu" or len(self._killed) >= _KILLED_MAX:  # what is forked next needs the memory of a GPU
            self._release_killed()

    def _release_killed(self) -> None:
        with ExitStack() as stack:  # all are released, also where one raises
            while self._killed:
                stack.callback(self._release, *self._killed.pop())

    def _release(self, name: str, child: Child) -> None:
        child.close()
        self.processor_s[name] = self.processor_s.get(name, 0.0) + child.exit_processor_s
