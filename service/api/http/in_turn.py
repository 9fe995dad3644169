"""In turn: the work of a request on a thread waits for its tenant's turn, and is dropped when its client goes."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from functools import WRAPPER_ASSIGNMENTS, update_wrapper
from inspect import Parameter, iscoroutinefunction, signature
from typing import Annotated, Any, BinaryIO, ParamSpec, TypeVar

from anyio import CancelScope
from fastapi import Depends, Request
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from service.api.context import AppContext
from service.api.http.tenant import tenant_of
from service.turns import Turns

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_REQUEST = "request_in_turn"
_of_files: set[Callable[..., Any]] = set()


class InTurn(APIRoute):
    """A route whose plain function is called in turn. FastAPI would call it on threads that one tenant could take."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else _in_turn(endpoint), **options)


async def run(request: Request, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Do the work of a request whose body has been read. Raises TooMuchWorkWaits and ClientDisconnect."""
    return await while_connected(request, _turns(request).run(tenant_of(request.scope), work, *args, **kwargs))


def transfers_files(work: Callable[P, R]) -> Callable[P, R]:
    """Mark a route's plain function that fetches files. Their place may be slow: so it is called on threads of its own,
    and all else need not wait for it."""
    _of_files.add(work)
    return work


async def fetch(request: Request, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Do as `run` with work that fetches files: see `transfers_files`."""
    context: AppContext = request.app.state.context
    return await while_connected(request, context.transfers.run(tenant_of(request.scope), work, *args, **kwargs))


async def draw(request: Request, read: Callable[[], T], work: Callable[[T], R]) -> R:
    """Do work that takes a second, in a process: it has turns of its own, so that all else need not wait for it.

    What `read` returns is read on a thread in the same turn, so that requests that wait hold no memory.

    Raises TooMuchWorkWaits and ClientDisconnect.
    """
    context: AppContext = request.app.state.context
    return await while_connected(request, context.drawings.run_on(tenant_of(request.scope), read, work))


async def parse(request: Request, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Do work on a large body in a process. The body must have been read. Raises TooMuchWorkWaits, ClientDisconnect."""
    context: AppContext = request.app.state.context
    return await while_connected(request, context.parsings.run(tenant_of(request.scope), work, *args, **kwargs))


async def parse_submission(request: Request, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Do as `parse` in a process that gives way to those that answer."""
    context: AppContext = request.app.state.context
    return await while_connected(request, context.submissions.run(tenant_of(request.scope), work, *args, **kwargs))


async def decode(request: Request, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Do work that a picture needs, on a thread that waits for a process. Raises TooMuchWorkWaits, ClientDisconnect."""
    context: AppContext = request.app.state.context
    return await while_connected(request, context.decodings.run(tenant_of(request.scope), work, *args, **kwargs))


async def go_on(request: Request, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Do more work of a request that was let in, such as that on a piece of its body: it is not refused."""
    return await _turns(request).go_on(tenant_of(request.scope), work, *args, **kwargs)


class Stream(StreamingResponse):
    """A reply whose pieces are made in turn while its client reads. In the end, also if it goes, `file` is closed."""

    def __init__(
        self,
        request: Request,
        pieces: Generator[bytes | str, None, None],
        *,
        file: BinaryIO | None = None,
        **options: Any,
    ) -> None:
        super().__init__(_turns(request).iterate(tenant_of(request.scope), pieces), **options)
        self._pieces = pieces
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # If the client has gone, errors refer to all of this in circles, which stay until the garbage is collected.
            with suppress(ValueError):  # a stopping service leaves a piece that is being made
                self._pieces.close()
            if self._file is not None:
                self._file.close()


async def while_connected(request: Request, work: Awaitable[R]) -> R:
    """Await the work; if the client goes, cancel it and raise ClientDisconnect. The body must have been read."""
    with CancelScope() as scope:
        watcher = asyncio.create_task(_cancel_when_gone(request, scope))
        try:
            return await work
        finally:
            watcher.cancel()
    raise ClientDisconnect


async def _cancel_when_gone(request: Request, scope: CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _turns(request: Request) -> Turns:
    context: AppContext = request.app.state.context
    return context.turns


async def _request(request: Request) -> Request:
    return request


def _in_turn(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coroutine function with the parameters of `work`, and one more, by which it gets the request."""

    async def called_in_turn(**arguments: Any) -> Any:
        request: Request = arguments.pop(_REQUEST)
        context: AppContext = request.app.state.context
        turns = context.transfers if work in _of_files else context.turns
        return await while_connected(request, turns.run(tenant_of(request.scope), work, **arguments))

    # Without `__wrapped__`, by which FastAPI would take it for the plain function.
    update_wrapper(called_in_turn, work, assigned=WRAPPER_ASSIGNMENTS)
    del called_in_turn.__wrapped__  # type: ignore[attr-defined]
    declared = signature(work)
    added = Parameter(_REQUEST, Parameter.KEYWORD_ONLY, annotation=Annotated[Request, Depends(_request)])
    called_in_turn.__signature__ = declared.replace(  # type: ignore[attr-defined]
        parameters=[*declared.parameters.values(), added]
    )
    return called_in_turn
