"""A service that tells its webhook what it has traced, also after it was killed."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson
import pytest

from service.domain.webhook import sign
from tests.acceptance.conftest import ANSWER_S, StartService, ended, linear


class Receiver(ThreadingHTTPServer):
    """Refuses the first message, and takes what comes after it."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.asked, self.taken = threading.Event(), threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        is_first = not self.server.got
        self.server.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(503 if is_first else 204)
        self.end_headers()
        (self.server.asked if is_first else self.server.taken).set()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


def test_what_was_traced_is_told_until_it_is_heard(start_service: StartService, receiver: Receiver) -> None:
    service = start_service(WEBHOOK_NETWORKS="127.0.0.0/8")
    with service.client() as client:
        secret = client.post("/webhooks", json={"url": f"http://127.0.0.1:{receiver.server_port}/"}).json()["secret"]
        request = ended(client, client.post("/trace", json=linear()))
    assert receiver.asked.wait(ANSWER_S)
    service.kill()

    service.start()

    assert receiver.taken.wait(ANSWER_S)
    (first, _), (headers, body) = receiver.got
    assert first["webhook-id"] == headers["webhook-id"]
    assert headers["webhook-signature"] == sign(secret, headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    told = orjson.loads(body)
    assert (told["type"], told["data"]["id"], told["data"]["verdict"]) == ("trace.succeeded", request["id"], "verified")
    assert secret not in service.log.read_text()
