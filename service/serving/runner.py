"""A runner from outside: one confined process with one artifact loaded, which answers one request at a time."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from enum import StrEnum

from pydantic import ValidationError

from service.protocol.bounds import text_of
from service.protocol.messages import FailureReply
from service.protocol.reference import GradientReply
from service.protocol.runner import Infer, Load, OutputReply, RunnerReady, from_runner
from service.sandbox.channel import AsyncChannel, Buffer, ChannelClosed, MalformedFrame
from service.sandbox.child import Child, Exit
from service.sandbox.limits import Limits
from service.sandbox.zygote import Zygote
from service.storage.blobs import Blobs
from tracehouse.artifact.manifest import Artifact
from tracehouse.byte_units import MIB
from tracehouse.differential import golden
from tracehouse.errors import AnswerTooLarge, Failure, GoldenCaseFailed, GraphRaised, InferenceTimeout, RunnerLost
from tracehouse.findings.verdict import Verdict
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Tensor, split

_PROGRAM = "workers.programs.runner"
_HEADER_MAX_BYTES = MIB
_LOG_MAX_BYTES = 16 * 1024
# A killed process is gone within milliseconds, unless it waits in the kernel, for a disk for instance.
_END_S = 10.0
# The channel closes a moment before the zygote has reaped the process and reported its exit.
_EXIT_REPORT_S = 1.0
# Pages of the zygote that a runner has copied by the time it answers: 6 MiB for a tiny model with torch 2.13.
_COPIED_BYTES = 16 * MIB
_STATM_MAX_BYTES = 4096  # seven numbers
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

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

    `free_at` is when its load or its answer has ended at the latest. A runner that `was_evicted` did not fail.
    """

    def __init__(self, artifact: Artifact, digest: str, limits: RunnerLimits, *, expected_bytes: int) -> None:
        self.state = RunnerState.STARTING
        self.was_evicted = False
        self.free_at = time.monotonic() + limits.load_timeout_s
        self._artifact = artifact
        self._digest = digest
        self._limits = limits
        self._expected_bytes = self._resident_bytes = expected_bytes
        self._inherited_bytes = 0
        self._child: Child | None = None
        self._channel: AsyncChannel | None = None
        self._exchange: asyncio.Task[list[Tensor]] | None = None
        self._end: asyncio.Task[None] | None = None
        self._exit: Exit | None = None

    async def start(self, zygote: Zygote, blobs: Blobs) -> None:
        """Load the archive and replay its golden cases. Raises RunnerLost or GoldenCaseFailed when it is gone."""
        try:
            child = self._child = await asyncio.to_thread(self._fork, zygote, blobs)
        finally:
            if self._child is None:
                self.state = RunnerState.GONE
        self._inherited_bytes = _anonymous_bytes(child.pid) or 0
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
        )
        try:
            message, _ = await self._ask(self._channel, load, (), self._limits.load_timeout_s)
        except TimeoutError:
            raise await self._lost(f"it did not load within {self._limits.load_timeout_s:g} s") from None
        match message:
            case RunnerReady() if self.state is RunnerState.STARTING:
                self._resident_bytes = message.resident_bytes
                self.state = RunnerState.READY
            case FailureReply():
                await self.close()
                raise _not_loaded(message.failure)
            case _:
                raise await self._lost("it did not get as far as being asked")

    async def infer(self, method: str, inputs: Sequence[Tensor], *, seed: int) -> list[Tensor]:
        """Return the outputs in the contract's order. `seed` seeds the random numbers that are drawn.

        Raises GraphRaised, AnswerTooLarge, InferenceTimeout or RunnerLost.

        The answer is read even if the caller is cancelled, or the next caller would get it: call `settle` before.
        """
        if self.state is not RunnerState.READY or self._channel is None:
            raise RunnerLost("the runner ended before it was asked")
        self.state = RunnerState.BUSY
        self.free_at = time.monotonic() + self._limits.infer_timeout_s
        self._exchange = asyncio.create_task(self._answer(self._channel, method, inputs, seed))
        return await asyncio.shield(self._exchange)

    async def settle(self) -> None:
        """Wait until no request is being computed."""
        if self._exchange is not None and not self._exchange.done():
            await asyncio.wait([self._exchange])

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

    @property
    def ended_with_zygote(self) -> bool:
        """Whether it ended because its zygote did, and not through its own fault."""
        return self._exit is not None and self._exit.with_zygote

    @property
    def resident_bytes(self) -> int:
        """Bytes of memory that it uses without shared pages; while it starts, at least what it is expected to use."""
        if self.state is RunnerState.GONE:
            return 0
        taken = None if self._child is None else _anonymous_bytes(self._child.pid)
        if taken is not None:
            expected_bytes = self._expected_bytes if self.state is RunnerState.STARTING else 0
            self._resident_bytes = max(taken - self._inherited_bytes + _COPIED_BYTES, _COPIED_BYTES, expected_bytes)
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
            )

    async def _answer(self, channel: AsyncChannel, method: str, inputs: Sequence[Tensor], seed: int) -> list[Tensor]:
        answer_max_bytes, limit_s = self._limits.answer_max_bytes, self._limits.infer_timeout_s
        specs = [tensor.spec for tensor in inputs]
        ask = Infer(method=method, inputs=specs, answer_max_bytes=answer_max_bytes, seed=seed)
        try:
            message, body = await self._ask(channel, ask, [tensor.data for tensor in inputs], limit_s)
        except TimeoutError:
            await self.close()
            raise InferenceTimeout(f"no answer came within {limit_s:g} s", limit_s=limit_s) from None
        match message:
            case OutputReply() if self._fits(method, inputs, message, body):
                self._become_ready()
                return split(message.outputs, body)
            case FailureReply() if message.failure.slug == AnswerTooLarge.slug():
                self._become_ready()
                raise AnswerTooLarge(
                    f"an answer may have {answer_max_bytes} bytes", limit=answer_max_bytes, method=method
                )
            case FailureReply():
                self._become_ready()
                raise GraphRaised(message.failure.detail, method=method)
        raise await self._lost("its answer does not fit what it was asked")

    def _become_ready(self) -> None:
        if self.state is RunnerState.BUSY:  # it may have ended right after its answer
            self.state = RunnerState.READY

    async def _ask(
        self, channel: AsyncChannel, message: Frozen, body: Sequence[Buffer], timeout_s: float
    ) -> tuple[RunnerReady | OutputReply | GradientReply | FailureReply, bytes]:
        try:
            async with asyncio.timeout(timeout_s):
                await channel.send(message.model_dump(mode="json"), *body)
                header, answer = await channel.receive()
            return from_runner.validate_python(header), answer
        except ChannelClosed:
            if self._end is not None:
                await asyncio.wait([self._end], timeout=_EXIT_REPORT_S)  # so that the error names the exit
            raise await self._lost("it ended before it answered") from None
        except (MalformedFrame, ValidationError) as error:
            _log.warning(
                "a runner's answer is malformed", extra={"artifact": self._digest, "error": text_of(error)[:1000]}
            )
            raise await self._lost("its answer could not be read") from None

    def _fits(self, method: str, inputs: Sequence[Tensor], answer: OutputReply, body: bytes) -> bool:
        expected = self._artifact.contract.method(method).output_datatypes(inputs)
        found = [(spec.name, spec.datatype) for spec in answer.outputs]
        return found == [*expected.items()] and sum(spec.byte_size for spec in answer.outputs) == len(body)

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


def _anonymous_bytes(pid: int) -> int | None:
    """Return resident memory without mapped files, shared with the zygote or not; None if the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as statm:
            _, resident, shared, *_ = statm.read(_STATM_MAX_BYTES).split()
    except OSError:  # it is ending, or there is no /proc
        return None
    return (int(resident) - int(shared)) * _PAGE_BYTES


def _describe(end: Exit) -> str:
    if end.with_zygote:
        return "with the process that it was forked from"
    if end.signal is not None:
        return f"by signal {end.signal}, {signal.strsignal(end.signal)}"
    return f"with status {end.code}"
