"""A runner from outside: one confined process with one artifact loaded, which answers one request at a time."""

import asyncio
import logging
import signal
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from enum import StrEnum

from pydantic import ValidationError

from service.protocol.bounds import text_of
from service.protocol.calls import ANSWER, ANSWERS, MisfitAnswer, read_answer, read_answers
from service.protocol.messages import FailureReply
from service.protocol.runner import Load, RunnerReady, from_runner
from service.sandbox import process_stat
from service.sandbox.async_channel import AsyncChannel
from service.sandbox.channel import Buffer, ChannelClosed, Header, MalformedFrame
from service.sandbox.child import Child, Exit
from service.sandbox.limits import Limits
from service.sandbox.resident_memory import ResidentMemory
from service.sandbox.zygote import Zygote
from service.serving.pending_call import Answer, Group, PendingCall
from service.storage.blobs import Blobs
from tracehouse.artifact.manifest import Artifact
from tracehouse.byte_units import MIB
from tracehouse.differential import golden
from tracehouse.errors import AnswerTooLarge, Failure, GoldenCaseFailed, GraphRaised, InferenceTimeout, RunnerLost
from tracehouse.findings.verdict import Verdict
from tracehouse.frozen import Frozen
from tracehouse.spec.raced_form import RacedForm

_PROGRAM = "workers.programs.runner"
_HEADER_MAX_BYTES = MIB
_LOG_MAX_BYTES = 16 * 1024
# A killed process is gone within milliseconds, unless it waits in the kernel, for a disk for instance.
_END_S = 10.0
# The channel closes a moment before the zygote has reaped the process and reported its exit.
_EXIT_REPORT_S = 1.0
# A start may wait for the store of the files, and must not take the threads on which models and keys are looked up.
_STARTS = ThreadPoolExecutor(8, thread_name_prefix="starts a runner")

_ENDED = "it ended before it answered"
_UNREADABLE = "its answer could not be read"

OnEnd = Callable[[list[tuple[PendingCall, Answer]]], object]

_log = logging.getLogger(__name__)


class RunnerState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    DRAINING = "draining"
    GONE = "gone"


class RunnerLimits(Frozen):
    """What one runner may use; `threads` are those that torch computes with."""

    child: Limits
    threads: int
    infer_timeout_s: float
    answer_max_bytes: int = 64 * MIB
    load_timeout_s: float = 120.0


class Runner:
    """starting → ready ⇄ busy → draining → gone. A runner whose answer does not fit what it was asked is killed.

    `free_at` is when its load or its answer has ended at the latest. A runner that `was_evicted` did not fail. It
    answers in the `raced_form`, if there is one, else in the form as saved.
    """

    def __init__(
        self,
        artifact: Artifact,
        digest: str,
        limits: RunnerLimits,
        *,
        expected_bytes: int,
        raced_form: RacedForm | None = None,
    ) -> None:
        self.state = RunnerState.STARTING
        self.raced_form = raced_form
        self.was_evicted = False
        self.has_loaded = False
        self.free_at = time.monotonic() + limits.load_timeout_s
        self._artifact = artifact
        self._digest = digest
        self._limits = limits
        self._expected_bytes = self._resident_bytes = expected_bytes
        self._was_stopped = False
        self._memory: ResidentMemory | None = None
        self._child: Child | None = None
        self._channel: AsyncChannel | None = None
        self._asked: deque[PendingCall] = deque()  # that are not answered yet
        self._ended: list[tuple[PendingCall, Answer]] = []  # of the same group
        self._on_end: OnEnd | None = None
        self._hung_up: ChannelClosed | MalformedFrame | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        self._losing: asyncio.Task[None] | None = None
        self._end: asyncio.Task[None] | None = None
        self._exit: Exit | None = None

    async def start(self, zygote: Zygote, blobs: Blobs) -> None:
        """Load the archive and replay its golden cases. Raises RunnerLost or GoldenCaseFailed when it is gone."""
        try:
            loop = asyncio.get_running_loop()
            child = self._child = await loop.run_in_executor(_STARTS, copy_context().run, self._fork, zygote, blobs)
        finally:
            if self._child is None:
                self.state = RunnerState.GONE
        self._memory = ResidentMemory(child.pid)
        self._channel = await child.open_async()
        self._end = asyncio.create_task(self._wait_for_exit(child))
        if self.state is RunnerState.GONE:  # closed while it was forked
            child.kill()
        check = self._artifact.check
        load = Load(
            contract=self._artifact.contract,
            device=self._artifact.device,
            served_form=self._artifact.served_form,
            gradients=False,
            tolerance=None if check.verdict is Verdict.REJECTED else golden.replay_tolerance(check.tolerance),
            threads=self._limits.threads,
            raced_form=self.raced_form,
            form_tolerance=check.tolerance,
        )
        message = await self._say_ready(self._channel, load)
        if isinstance(message, FailureReply):
            await self.close()
            raise _not_loaded(message.failure)
        self._resident_bytes = message.resident_bytes
        self.state = RunnerState.READY
        self.has_loaded = True
        self._channel.hand_to(self._hear, self._hear_end)

    def ask(self, group: Group, on_end: OnEnd) -> None:
        """Ask a group of calls without waiting. The runner must be ready; `on_end` is called when all have an end.

        The answers are read even if nobody waits for them any more, or the next group would get them.
        """
        assert self.state is RunnerState.READY
        assert self._channel is not None
        self.state = RunnerState.BUSY
        self._settled.clear()
        self._asked.extend(group.calls)
        self._on_end = on_end
        self._limit_time()
        if self._hung_up is not None:
            self._hear_end(self._hung_up)
            return
        call, body = group.call(self._limits.answer_max_bytes)
        self._channel.write(call.header(), *body)

    def _limit_time(self) -> None:
        """Limit the time until the next answer: calls that were joined may be answered one by one."""
        if self._deadline is not None:
            self._deadline.cancel()
        limit_s = self._limits.infer_timeout_s
        self.free_at = time.monotonic() + limit_s
        self._deadline = asyncio.get_running_loop().call_later(limit_s, self._time_out)

    async def settle(self) -> None:
        """Wait until no request is being computed."""
        await self._settled.wait()

    async def evict(self) -> None:
        """Kill the process to make room for another, whatever it does."""
        self.was_evicted = True
        await self.close()

    async def drain(self) -> None:
        """Take no more requests, and end after the answer that is being computed."""
        self.was_evicted = True
        self.state = RunnerState.DRAINING
        await self.settle()
        await self.close()

    async def close(self) -> None:
        """Kill the process, and wait until it is gone."""
        self.state = RunnerState.GONE
        if self._child is not None and self._end is not None:
            self._child.kill()
            await asyncio.wait([self._end], timeout=_END_S)

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None else None

    async def end_if_stopped(self) -> None:
        """End it if a signal has stopped it while it loads, and had so when this was called before."""
        is_stopped = self.state is RunnerState.STARTING and self.pid is not None and process_stat.is_stopped(self.pid)
        if is_stopped and self._was_stopped:
            _log.warning("a runner that was stopped while it loads is ended", extra={"artifact": self._digest})
            await self.close()
        self._was_stopped = is_stopped

    @property
    def ended_with_zygote(self) -> bool:
        """Whether it ended because its zygote did, and not through its own fault."""
        return self._exit is not None and self._exit.with_zygote

    @property
    def resident_bytes(self) -> int:
        """Bytes of memory that it uses without shared pages; while it starts, at least what it is expected to use."""
        if self.state is RunnerState.GONE:
            return 0
        taken = None if self._memory is None else self._memory.read()
        if taken is not None and self._child is not None:
            expected_bytes = self._expected_bytes if self.state is RunnerState.STARTING else 0
            self._resident_bytes = max(taken + self._child.shared_bytes, expected_bytes)
        return self._resident_bytes

    def _fork(self, zygote: Zygote, blobs: Blobs) -> Child:
        with ExitStack() as opened:
            files = [
                opened.enter_context(blobs.open(blob.digest))
                for blob in (self._artifact.archive, self._artifact.golden)
            ]
            return zygote.fork(
                _PROGRAM,
                self._limits.child.on(self._artifact.device),
                [file.fileno() for file in files],
                profile="infer",
                log_max_bytes=_LOG_MAX_BYTES,
                header_max_bytes=_HEADER_MAX_BYTES,
                body_max_bytes=self._limits.answer_max_bytes,
                shares_bodies=True,
                answers=True,
                imports=() if self.raced_form is None else self.raced_form.imports,
            )

    async def _say_ready(self, channel: AsyncChannel, load: Load) -> RunnerReady | FailureReply:
        """Return what it says when it has loaded. Raises RunnerLost."""
        limit_s = self._limits.load_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await channel.send(load.model_dump(mode="json"))
                header, _ = await channel.receive()
            message = from_runner.validate_python(header)
        except TimeoutError:
            raise await self._lost(f"it did not load within {limit_s:g} s") from None
        except ChannelClosed:
            await self._await_exit_report()
            raise await self._lost(_ENDED) from None
        except (MalformedFrame, ValidationError) as error:
            self._log_malformed(error)
            raise await self._lost(_UNREADABLE) from None
        if isinstance(message, FailureReply) or (
            isinstance(message, RunnerReady) and self.state is RunnerState.STARTING
        ):
            return message
        raise await self._lost("it did not get as far as being asked")

    def _hear(self, header: Header, body: Buffer) -> None:
        """Take the answer to the first call that has none, or those to all. What does not fit costs the runner."""
        if self._losing is not None:
            return
        if not self._asked:
            self._lose("it answered what nobody asked")
            return
        try:
            answers = self._read_answers(header, body)
        except MisfitAnswer as error:
            self._log_malformed(error)
            self._lose("its answer does not fit what it was asked")
        except ValidationError as error:
            self._log_malformed(error)
            self._lose(_UNREADABLE)
        else:
            self._ended += [(self._asked.popleft(), answer) for answer in answers]
            if not self._asked:
                self._end_exchange()
            else:
                self._limit_time()

    def _read_answers(self, header: Header, body: Buffer) -> list[Answer]:
        """Return the answers to the first of the calls that have none. Raises MisfitAnswer and ValidationError."""
        asked, kind = self._asked[0], header.get("kind")
        if kind not in (ANSWER, ANSWERS):
            return [self._read_failure(asked, header)]
        expected = self._artifact.contract.method(asked.method).output_datatypes(asked.inputs)
        if kind == ANSWER:
            return [read_answer(header, body, expected)]
        rows = [call.joining.rows for call in self._asked if call.joining is not None]
        if self._ended or len(rows) < 2:
            raise MisfitAnswer("it answers what was not joined")
        return [*read_answers(header, body, expected, rows)]

    def _read_failure(self, asked: PendingCall, header: Header) -> Answer:
        message = from_runner.validate_python(header)
        if not isinstance(message, FailureReply):
            raise MisfitAnswer("it is no answer")
        if message.failure.slug == AnswerTooLarge.slug():
            limit = self._limits.answer_max_bytes
            return AnswerTooLarge(f"an answer may have {limit} bytes", limit=limit, method=asked.method)
        return GraphRaised(message.failure.detail, method=asked.method)

    def _hear_end(self, error: ChannelClosed | MalformedFrame) -> None:
        self._hung_up = error
        if isinstance(error, MalformedFrame):
            self._log_malformed(error)
            self._lose(_UNREADABLE)
        elif self._asked:
            self._lose(_ENDED)

    def _time_out(self) -> None:
        limit_s = self._limits.infer_timeout_s
        self._lose("it took too long", InferenceTimeout(f"no answer came within {limit_s:g} s", limit_s=limit_s))

    def _lose(self, reason: str, error: InferenceTimeout | None = None) -> None:
        """Kill it, and end what it was asked with the error, or with RunnerLost."""
        if self._losing is None:
            self._losing = asyncio.create_task(self._end_lost(reason, error))

    async def _end_lost(self, reason: str, error: InferenceTimeout | None) -> None:
        if reason == _ENDED:
            await self._await_exit_report()
        lost = await self._lost(reason)
        if self._asked:
            self._ended.extend((call, error or lost) for call in self._asked)
            self._asked.clear()
            self._end_exchange()

    def _end_exchange(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self.state is RunnerState.BUSY:  # it may have ended right after its answer
            self.state = RunnerState.READY
        ended, self._ended = self._ended, []
        on_end, self._on_end = self._on_end, None
        self._settled.set()
        assert on_end is not None
        on_end(ended)

    async def _await_exit_report(self) -> None:
        """Wait for the report of its exit, so that an error can name it."""
        if self._end is not None:
            await asyncio.wait([self._end], timeout=_EXIT_REPORT_S)

    def _log_malformed(self, error: Exception) -> None:
        _log.warning("a runner's answer is malformed", extra={"artifact": self._digest, "error": text_of(error)[:1000]})

    async def _lost(self, reason: str) -> RunnerLost:
        await self.close()
        how = _describe(self._exit) if self._exit is not None else "it did not end when it was killed"
        return RunnerLost(f"the artifact's process was lost: {reason} ({how})", reason=reason, ended=how)

    async def _wait_for_exit(self, child: Child) -> None:
        """Wait until the process has ended, whatever ended it, and release what belongs to it."""
        self._exit = await child.wait_async()
        unexpected = self.state is not RunnerState.GONE
        self.state = RunnerState.GONE
        await child.close_async()
        if unexpected:
            _log.warning("runner ended", extra={"artifact": self._digest, "ended": _describe(self._exit)})
        if printed := child.log.text():
            _log.info("runner printed", extra={"artifact": self._digest, "printed": printed})


def _not_loaded(failure: Failure) -> RunnerLost:
    """Keep only what we know how to read, for the artifact may have invented the rest."""
    kind = GoldenCaseFailed if failure.slug == GoldenCaseFailed.slug() else RunnerLost
    facts = {name: failure.facts[name] for name in ("method", "largest_difference") if name in failure.facts}
    return kind(failure.detail, **facts)


def _describe(end: Exit) -> str:
    if end.with_zygote:
        return "with the process that it was forked from"
    if end.signal is not None:
        return f"by signal {end.signal}, {signal.strsignal(end.signal)}"
    return f"with status {end.code}"
