"""One delivery: how it is signed, and what a receiver cannot do to the service."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from service.domain.webhook import Message, sign
from service.webhooks.delivery import deliver
from tests.service.webhooks.conftest import HERE, Receiver
from tracehouse.byte_units import MIB

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def message(url: str) -> Message:
    return Message("msg_1", "hook", "acme", url, '{"type":"trace.failed"}', 0, SECRET)


def test_the_signature_is_the_one_that_the_standards_library_makes() -> None:
    signature = sign(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_message_arrives_signed(receiver: Receiver) -> None:
    assert deliver(message(receiver.url), HERE) == 204

    [(headers, body)] = receiver.got
    assert body == b'{"type":"trace.failed"}'
    assert headers["content-type"] == "application/json"
    assert headers["webhook-id"] == "msg_1"
    assert headers["webhook-signature"] == sign(SECRET, "msg_1", int(headers["webhook-timestamp"]), body)
    assert SECRET not in str(headers)
    assert SECRET not in repr(message(receiver.url))


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.replies = [302]

    assert deliver(message(receiver.url), HERE) == 302
    assert len(receiver.got) == 1


def test_without_the_operators_word_nothing_on_this_machine_is_asked(receiver: Receiver) -> None:
    assert deliver(message(receiver.url), []) == "the address is not on the public internet"
    assert receiver.got == []


def test_a_name_that_changes_its_address_is_asked_at_the_one_that_was_looked_at(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    resolve = socket.getaddrinfo

    def rebind(host: str, *args: object, **kwargs: object) -> object:
        if host != "rebinds.example":
            return resolve(host, *args, **kwargs)  # type: ignore[arg-type]
        asked.append(host)
        return resolve("127.0.0.1" if len(asked) == 1 else "127.9.9.9", *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", rebind)
    url = receiver.url.replace("127.0.0.1", "rebinds.example")

    assert deliver(message(url), HERE) == 204
    assert asked == ["rebinds.example"], "it was looked up once"
    assert receiver.got[0][0]["host"] == url.split("/")[2]


@contextmanager
def saying(talk: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server that says what `talk` sends to its one client."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                client, _ = listening.accept()
                with client:
                    talk(client)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"


def trickle(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\n")
    ended = threading.Event()
    while not ended.wait(0.02):
        client.sendall(b"a: b\r\n")


def silent(client: socket.socket) -> None:
    while client.recv(4096):
        pass


@pytest.mark.parametrize("talk", [silent, trickle])
def test_a_receiver_that_does_not_come_to_an_end_is_left(talk: Callable[[socket.socket], object]) -> None:
    with saying(talk) as url:
        assert isinstance(deliver(message(url), HERE, within_s=0.3), str)


def test_of_a_reply_only_the_status_is_read() -> None:
    def talk(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n")
        while True:
            client.sendall(b"x" * 65536)

    with saying(talk) as url:
        assert deliver(message(url), HERE) == 200


def test_interim_replies_are_passed_over() -> None:
    def talk(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 204\r\n\r\n"
        )

    with saying(talk) as url:
        assert deliver(message(url), HERE) == 204


@pytest.mark.parametrize("flood", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50])
def test_a_reply_whose_head_does_not_end_is_a_failure_at_once(flood: bytes) -> None:
    sent = 0

    def talk(client: socket.socket) -> None:
        nonlocal sent
        client.recv(65536)
        while True:
            client.sendall(flood)
            sent += len(flood)

    with saying(talk) as url:
        assert deliver(message(url), HERE) == "the connection failed"
    assert sent < 16 * MIB  # what the kernel takes


def test_a_name_that_is_not_resolved_in_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = threading.Event()

    def slow(*_: object, **__: object) -> object:
        given_up.wait()
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", slow)

    assert deliver(message("https://slow.example/"), [], within_s=0.1) == "the host's name could not be resolved"
    given_up.set()


@pytest.mark.parametrize(
    "said", [b"", b"no http\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"\xff" * 100_000]
)
def test_what_is_no_reply_is_a_failure(said: bytes) -> None:
    def talk(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(said)

    with saying(talk) as url:
        assert deliver(message(url), HERE) == "the connection failed"
