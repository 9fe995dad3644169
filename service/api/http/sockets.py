"""Sockets: what the kernel is told of a connection's, and what it knows of the other side. Nothing is read for that."""

import asyncio
import select
import socket
from contextlib import suppress
from enum import Enum, auto


class Peer(Enum):
    """The other side."""

    THERE = auto()  # or the system does not tell
    HALF_CLOSED = auto()  # sends no more; whether it has gone shows once something is sent to it
    GONE = auto()  # has reset the connection


def find_peer(transport: asyncio.Transport) -> Peer:
    """Return what the kernel knows of the other side of an open connection."""
    connection = _socket_of(transport)
    if connection is None or not hasattr(select, "POLLRDHUP"):
        return Peer.THERE
    closed = select.poll()
    closed.register(connection.fileno(), select.POLLRDHUP)
    events = sum(mask for _, mask in closed.poll(0))
    if events & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
        return Peer.GONE
    return Peer.HALF_CLOSED if events & select.POLLRDHUP else Peer.THERE


def set_option(transport: asyncio.Transport, level: int, option: int, value: int | bytes) -> None:
    """Set an option of the socket. A system may know no such option, or no TCP; a connection may be closed already."""
    connection = _socket_of(transport)
    if connection is not None:
        with suppress(OSError, ValueError):
            connection.setsockopt(level, option, value)


def _socket_of(transport: asyncio.Transport) -> socket.socket | None:
    connection: socket.socket | None = transport.get_extra_info("socket")
    return connection
