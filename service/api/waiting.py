"""Waiting for changes of a trace request. Whoever writes a change reports it, and no thread waits."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event
from time import monotonic

from fastapi import Request

from service.api.context import AppContext
from service.domain.trace_request import TraceStatus
from service.storage.changes import Changes

# How often to look for what nobody reports: that the service stops, or that the client has gone.
POLL_S = 0.5


async def wait_for_end(context: AppContext, http: Request, request: TraceStatus, wait_s: float) -> TraceStatus:
    """Return the request once it has ended, the time is over, the client is gone or the service stops."""
    until = monotonic() + wait_s
    with listen_for_changes(context.store.changes, request.id) as changed:
        while True:
            changed.clear()
            request = await context.turns.go_on(
                request.tenant, context.store.trace_requests.status, request.tenant, request.id
            )
            while not changed.is_set():
                left_s = until - monotonic()
                if request.state.is_final or left_s <= 0 or context.stopping.is_set() or await http.is_disconnected():
                    return request
                await _wait(changed, min(left_s, POLL_S))


async def wait_for_change(
    changed: asyncio.Event, wait_s: float, stopping: Event, has_moved: Callable[[], bool]
) -> bool:
    """Wait at most `wait_s` seconds; whether something has changed, the request has moved, or the service stops."""
    until = monotonic() + wait_s
    while (left_s := until - monotonic()) > 0:
        await _wait(changed, min(left_s, POLL_S))
        if changed.is_set() or stopping.is_set() or has_moved():
            return True
    return False


@contextmanager
def listen_for_changes(changes: Changes, request_id: str) -> Iterator[asyncio.Event]:
    """Yield an event that each change sets: clear it before you look at what has changed."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def report() -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(changed.set)

    with changes.subscribe(request_id, report):
        yield changed


async def _wait(changed: asyncio.Event, wait_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await changed.wait()
