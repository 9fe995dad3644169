"""A real server on this machine that webhooks reach, and says what the test wants."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from time import sleep

import pytest

from service.webhooks.target import Network

HERE: list[Network] = [ip_network("127.0.0.0/8")]


class Receiver:
    """`replies` are statuses, of which the last stays; `got` are the headers and the body of each request."""

    def __init__(self) -> None:
        self.replies: list[int] = [204]
        self.delay_s = 0.0
        self.got: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                sleep(receiver.delay_s)
                replies = receiver.replies
                status = replies.pop(0) if len(replies) > 1 else replies[0]
                self.send_response(status)
                self.send_header("location", f"{receiver.url}elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()
    thread.join()
