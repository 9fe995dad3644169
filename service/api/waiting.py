"""Waiting for what happens to a trace request: told by whoever writes it, and no thread is held meanwhile."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event
from time import monotonic

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from service.api.context import AppContext
from service.domain.trace_request import TraceStatus
from service.storage.changes import Changes

# How often that is looked at which nobody tells of: that the service stops, or that the client has gone.
LOOK_S = 0.5


async def wait_for_end(context: AppContext, http: Request, request: TraceStatus, wait_s: float) -> TraceStatus:
    """The request as it stands when it has ended, the time is over, or nobody waits any more."""
    until = monotonic() + wait_s
    with listening(context.store.changes, request.id) as changed:
        while True:
            changed.clear()
            request = await run_in_threadpool(context.store.trace_requests.status, request.tenant, request.id)
            while not changed.is_set():
                left_s = until - monotonic()
                if request.state.ended or left_s <= 0 or context.stopping.is_set() or await http.is_disconnected():
                    return request
                await _wait(changed, min(left_s, LOOK_S))


async def heard(changed: asyncio.Event, wait_s: float, stopping: Event) -> bool:
    """False if for so long nothing has changed, and the service is not stopping."""
    until = monotonic() + wait_s
    while (left_s := until - monotonic()) > 0:
        await _wait(changed, min(left_s, LOOK_S))
        if changed.is_set() or stopping.is_set():
            return True
    return False


@contextmanager
def listening(changes: Changes, request_id: str) -> Iterator[asyncio.Event]:
    """Inside, the event is set with each change: clear it before looking at what has changed."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(changed.set)

    with changes.calls(request_id, tell):
        yield changed


async def _wait(changed: asyncio.Event, wait_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await changed.wait()
