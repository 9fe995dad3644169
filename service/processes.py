"""Processes: work that holds Python's lock for long is done in processes of this service's own, beside its event loop.

Parsing some megabytes of JSON, or laying out a graph, is one call of C that keeps all other threads waiting.
"""

import os
from collections.abc import Callable
from typing import TypeVar

from anyio import BrokenWorkerProcess, CancelScope, CapacityLimiter, to_process

from service.domain.errors import ProcessLost
from service.sandbox.priority import give_way

R = TypeVar("R")


async def in_process(work: Callable[[], R], limiter: CapacityLimiter) -> R:
    """Do the work, which must be picklable as its result and its errors are. A process that is killed is replaced once.

    Work that has begun goes on to its end, also if the caller is cancelled: a new process would take longer to start.
    Raises ProcessLost.
    """
    with CancelScope(shield=True):
        try:
            return await to_process.run_sync(_work_aside, work, limiter=limiter)
        except BrokenWorkerProcess:
            return await _run_once_more(work, limiter)
    raise AssertionError("nothing cancels this scope")


async def _run_once_more(work: Callable[[], R], limiter: CapacityLimiter) -> R:
    try:
        return await to_process.run_sync(_work_aside, work, limiter=limiter)
    except BrokenWorkerProcess as error:
        raise ProcessLost("two processes ended while they did the same work") from error


def _work_aside(work: Callable[[], R]) -> R:
    if os.getsid(0) != os.getpid():  # the first work of this process
        os.setsid()
        give_way()
    return work()
