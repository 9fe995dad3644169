"""Processes: work that holds Python's lock for long is done in processes of this service's own, beside its event loop.

Parsing some megabytes of JSON, or laying out a graph, is one call of C that keeps all other threads waiting.
"""

import atexit
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

from service.domain.errors import ProcessLost
from service.handover import Handover, HandoverBroken
from service.sandbox.memory_file import open_memory_file
from service.sandbox.priority import give_way, session_gives_way
from tracehouse.byte_units import MIB

R = TypeVar("R")

# A process that had no work for so long ends when another one is asked. Chosen.
_IDLE_S = 300.0
_END_S = 5.0
# Of glibc, which gives large blocks back to the kernel at once: a body of 3 MB touched 4,000 new pages for each, which
# took as long as parsing it.
_KEEPS_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 * MIB), "MALLOC_TRIM_THRESHOLD_": str(64 * MIB)}


async def in_process(work: Callable[[], R], limiter: CapacityLimiter) -> R:
    """Do the work, which must be picklable as its result and its errors are. A process that is killed is replaced once.

    Work that has begun goes on to its end, also if the caller is cancelled: a new process would take longer to start.
    Raises ProcessLost.
    """
    return await to_thread.run_sync(partial(_ANSWERING.do, work), limiter=limiter)


async def in_background(work: Callable[[], R], limiter: CapacityLimiter) -> R:
    """Do the same in a process that gives way to all that answers."""
    return await to_thread.run_sync(partial(_GIVING_WAY.do, work), limiter=limiter)


class _Processes:
    """Processes that each do one piece of work after the other. Whoever asks limits how many there are at once."""

    def __init__(self, *, gives_way: bool) -> None:
        self._gives_way = gives_way
        self._idle: list[_Process] = []  # the one that had work last at the end
        self._lock = Lock()
        atexit.register(self.close)

    def do(self, work: Callable[[], R]) -> R:
        try:
            return self._do_once(work)
        except HandoverBroken:
            with contextlib.suppress(HandoverBroken):
                return self._do_once(work)
        raise ProcessLost("two processes ended while they did the same work")

    def close(self) -> None:
        """End those that have no work."""
        with self._lock:
            ended, self._idle = self._idle, []
        _end(ended)

    def _do_once(self, work: Callable[[], R]) -> R:
        process = self._take()
        try:
            result, error = process.do(work)
        except BaseException:
            _end([process])
            raise
        self._give_back(process)
        if error is not None:
            raise error
        done: R = result
        return done

    def _take(self) -> "_Process":
        ended: list[_Process] = []
        try:
            with self._lock:
                while self._idle:
                    process = self._idle.pop()
                    if process.lives:
                        return process
                    ended.append(process)
        finally:
            _end(ended)
        return _Process(gives_way=self._gives_way)

    def _give_back(self, process: "_Process") -> None:
        process.idle_since = monotonic()
        with self._lock:
            self._idle.append(process)
            ended = [each for each in self._idle if each.idle_since < process.idle_since - _IDLE_S]
            self._idle = [each for each in self._idle if each not in ended]
        _end(ended)


class _Process:
    """One process. It ends when this one does, whose socket closes with it."""

    def __init__(self, *, gives_way: bool) -> None:
        self.idle_since = 0.0
        with contextlib.ExitStack() as unless_made:
            here, there = (unless_made.enter_context(each) for each in socket.socketpair())
            file = open_memory_file(unless_made, "bodies")
            given = [there.fileno()] if file is None else [there.fileno(), file]
            # It finds what this process finds, wherever that was started.
            serve = f"from service.processes import _serve; _serve({given}, {gives_way})"
            program = f"import sys; sys.path[:] = {sys.path!r}; {serve}"
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-c", program],
                pass_fds=given,
                env={**os.environ, **_KEEPS_MEMORY},
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self._handover = Handover(socket.socket(fileno=here.detach()), None if file is None else os.dup(file))

    @property
    def lives(self) -> bool:
        return self._popen.poll() is None

    def do(self, work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """Return what the work returns, or what it raises. Raises HandoverBroken if the process ends meanwhile."""
        self._handover.send(work)
        answered: tuple[Any, BaseException | None] = self._handover.receive()
        return answered

    def end(self) -> None:
        self._handover.close()
        self._popen.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(_END_S)


def _end(processes: Sequence[_Process]) -> None:
    for process in processes:
        process.end()


def _serve(given: Sequence[int], gives_way: bool) -> None:
    """Do what is sent until nobody sends any more."""
    connection, *files = given
    if gives_way:
        give_way()
        session_gives_way()
    handover = Handover(socket.socket(fileno=connection), *files)
    with contextlib.suppress(HandoverBroken):
        while True:
            _answer(handover)


def _answer(handover: Handover) -> None:
    answer = _do(handover)
    try:
        handover.send(answer)
    except HandoverBroken:
        raise
    except Exception as error:  # noqa: BLE001 - what cannot be pickled: nothing of it was sent
        handover.send((None, error))


def _do(handover: Handover) -> tuple[Any, BaseException | None]:
    try:
        return handover.receive()(), None
    except HandoverBroken:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, whoever asked is told
        return None, error


_ANSWERING = _Processes(gives_way=False)
_GIVING_WAY = _Processes(gives_way=True)
