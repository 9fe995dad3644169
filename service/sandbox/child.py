"""A child from its parent's side: a confined process, the channel to it, and how it ended."""

import asyncio
import contextlib
import logging
import select
import signal
import socket
import time
from collections.abc import Callable
from functools import cached_property
from typing import Literal, Self

from pydantic import NonNegativeFloat, NonNegativeInt

from service.sandbox.async_channel import AsyncChannel, open_async
from service.sandbox.channel import BODY_MAX_BYTES, HEADER_MAX_BYTES, Channel, wait_for
from service.sandbox.control import MESSAGE_MAX_BYTES
from service.sandbox.log_tail import LogTail
from service.sandbox.process_stat import processor_s
from service.sandbox.shared_bodies import SharedBodies
from tracehouse.frozen import Frozen

_END_TIMEOUT_S = 10.0

_log = logging.getLogger(__name__)


class Exit(Frozen):
    """The exit of a child, with `code` or by `signal`."""

    code: int | None
    signal: int | None
    maxrss_kib: NonNegativeInt
    cpu_s: NonNegativeFloat
    over: Literal["threads"] | None = None  # the limit that it exceeded, for which the zygote killed it
    with_zygote: bool = False  # its zygote died, and the child with it


class Child:
    """A confined process. One thread at a time talks to it; any thread may `kill` it.

    With asyncio: `open_async`, `wait_async` and `close_async` instead of `channel`, `wait` and `close`.
    """

    def __init__(
        self,
        pid: int,
        lifeline: socket.socket,
        sock: socket.socket,
        log: LogTail,
        *,
        on_release: Callable[[], object] = lambda: None,
        header_max_bytes: int = HEADER_MAX_BYTES,
        body_max_bytes: int = BODY_MAX_BYTES,
        bodies: SharedBodies | None = None,
    ) -> None:
        self.pid = pid
        self._on_release = on_release
        self.log = log
        self._socket = sock
        self._bounds = {"header_max_bytes": header_max_bytes, "body_max_bytes": body_max_bytes}
        self._bodies = bodies
        lifeline.setblocking(False)
        self._lifeline = lifeline
        self._exit: Exit | None = None
        self._async_channel: AsyncChannel | None = None
        self._ended: asyncio.Event | None = None

    @cached_property
    def channel(self) -> Channel:
        """The channel to the child. While it waits, the log is drained."""
        channel = Channel(self._socket, **self._bounds, beside=self.log)
        if self._bodies is not None:
            channel.share_bodies(self._bodies)
        return channel

    async def open_async(self) -> AsyncChannel:
        """Open a channel on the running loop, which drains the log from now on."""
        self.log.attach(asyncio.get_running_loop())
        self._async_channel = await open_async(self._socket, **self._bounds, bodies=self._bodies)
        return self._async_channel

    @property
    def processor_s(self) -> float:
        """The processor time that it has used, in seconds; 0 where /proc does not say."""
        return processor_s(self.pid)

    @property
    def exit_processor_s(self) -> float:
        """The processor time that it had used when it ended; 0 while it lives."""
        return 0.0 if self._exit is None else self._exit.cpu_s

    @property
    def shared_bytes(self) -> int:
        """The memory that it shares with its parent for large bodies."""
        bodies = self._bodies  # another thread may ask while it is released
        return 0 if bodies is None else bodies.held_bytes

    def kill(self) -> None:
        """Kill it and all that it started. This closes its channel, which wakes a thread that waits there."""
        with contextlib.suppress(OSError):  # it was closed meanwhile, or the zygote is gone
            self._lifeline.shutdown(socket.SHUT_WR)

    def wait(self, until: float | None = None) -> Exit:
        """Wait for its end and return it."""
        if self._exit is None:
            wait_for(self._lifeline, select.POLLIN, until, self.log)
            self._exit = _receive_exit(self._lifeline)
            self.log.drain()  # what it printed last
        return self._exit

    async def wait_async(self) -> Exit:
        if self._exit is None:
            if self._ended is None:
                self._ended = asyncio.Event()
                asyncio.get_running_loop().add_reader(self._lifeline, self._end_async, self._ended)
            await self._ended.wait()
        return self.wait()

    def close(self) -> None:
        """Kill it if it lives, and release it. Its exit and its log remain readable."""
        if self._lifeline.fileno() < 0:
            return
        self.kill()
        try:
            self.wait(time.monotonic() + _END_TIMEOUT_S)
        except TimeoutError:
            self._log_undead()
        finally:
            self._release()

    async def close_async(self) -> None:
        if self._lifeline.fileno() < 0:
            return
        self.kill()
        try:
            async with asyncio.timeout(_END_TIMEOUT_S):
                await self.wait_async()
        except TimeoutError:
            self._log_undead()
        finally:
            if self._lifeline.fileno() >= 0:  # otherwise another task closed it meanwhile
                asyncio.get_running_loop().remove_reader(self._lifeline)
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close_async()

    def _end_async(self, ended: asyncio.Event) -> None:
        asyncio.get_running_loop().remove_reader(self._lifeline)
        self.wait()
        ended.set()

    def _log_undead(self) -> None:
        _log.error("a child was killed and did not end", extra={"pid": self.pid, "seconds": _END_TIMEOUT_S})

    def _release(self) -> None:
        if self._async_channel is None:
            self._socket.close()
        else:
            self._async_channel.close()  # its transport has the socket
        if self._bodies is not None:
            self._bodies.close()
            self._bodies = None
        self._lifeline.close()
        self.log.close()
        self._on_release()


def _receive_exit(lifeline: socket.socket) -> Exit:
    try:
        message = lifeline.recv(MESSAGE_MAX_BYTES)
    except ConnectionError:
        message = b""
    if message:
        return Exit.model_validate_json(message)
    return Exit(code=None, signal=signal.SIGKILL, maxrss_kib=0, cpu_s=0, with_zygote=True)
