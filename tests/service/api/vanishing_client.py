"""A client that loses its network while it reads a stream. Run it in a network of its own, which it takes down:

    unshare --map-root-user --net python -m tests.service.api.vanishing_client

It prints whether the stream ended.
"""

import asyncio
import fcntl
import socket
import struct
import threading
from typing import Any

import uvicorn

from service.api.http.connection import close_vanished
from tests.conftest import PATIENCE_S
from tests.service.api.conftest import protocol

IDLE_S = 1.0
SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def set_network(up: bool) -> None:
    with socket.socket() as anything:
        fcntl.ioctl(anything, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP if up else 0))


class Stream:
    """Sends a line ten times a second until its client is gone."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "http.request"
        gone = asyncio.create_task(receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not gone.done():
            await send({"type": "http.response.body", "body": b": still here\n", "more_body": True})
            await asyncio.wait([gone], timeout=0.1)
        self.ended.set()


def main() -> None:
    set_network(up=True)
    stream = Stream()
    http = protocol(idle_s=IDLE_S)
    server = uvicorn.Server(uvicorn.Config(stream, http=http, lifespan="off", log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        close_vanished(listening, IDLE_S)
        threading.Thread(target=server.run, args=([listening],), daemon=True).start()
        with socket.create_connection(listening.getsockname()) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(1)
            set_network(up=False)
            print("ended" if stream.ended.wait(PATIENCE_S) else "open")


if __name__ == "__main__":
    main()
