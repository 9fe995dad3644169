"""What a client says of a service that does not answer as it should, or refuses."""

import asyncio
import re
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import numpy as np
import pytest

from tracehouse import AsyncClient, Client
from tracehouse.client import errors
from tracehouse.client.connection import Address, Connection
from tracehouse.client.flow import Ask, Flow


def answering(answer: Callable[[httpx.Request], httpx.Response] | httpx.Response, key: str | None = None) -> Client:
    def handle(request: httpx.Request) -> httpx.Response:
        return answer(request) if callable(answer) else answer

    return Client("http://service", key, transport=httpx.MockTransport(handle))


def refusing(status: int, headers: dict[str, str] | None = None, **members: Any) -> httpx.Response:
    return httpx.Response(status, json={"title": "No", "code": "no", "detail": "it is so", **members}, headers=headers)


@pytest.mark.parametrize(
    "url", ["http://two..dots", "http://[::1", "http://\u2603\u2603.example", "http://host:port", "http://xn--a"]
)
def test_an_address_that_nothing_can_have_is_unreachable(url: str) -> None:
    async def ask() -> None:
        async with AsyncClient(url) as client:
            await client.list_traces()

    with pytest.raises(errors.ServiceUnreachable, match=re.escape(url)):
        Client(url).list_traces()
    with pytest.raises(errors.ServiceUnreachable, match=re.escape(url)):
        asyncio.run(ask())


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:73536", "a port is a number from 1 to 65535"),
        ("127.0.0.1:73536", "a port is a number from 1 to 65535"),
        ("", "it names no host"),
        ("file:///tmp/net.py", "over http or https, and not over 'file'"),
        ("http://127.0.0.1?x=1", 'has nothing after "?" or "#"'),
        ("http://me:secret@127.0.0.1#x", 'has nothing after "?" or "#"'),
    ],
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_address_of_no_service_is_refused_with_how_it_is_written(
    kind: Callable[[str], object], url: str, said: str
) -> None:
    with pytest.raises(errors.NotSendable) as refused:
        kind(url)

    shown = url.replace("me:secret@", "")
    assert str(refused.value).startswith(f"url (or TRACEHOUSE_URL) is {shown!r}, and ")
    assert f"{said}: write it as http://HOST:PORT" in str(refused.value)


def test_a_path_in_the_address_is_named_where_nothing_is_found() -> None:
    transport = httpx.MockTransport(lambda _: refusing(404, remedy="name another"))

    with pytest.raises(errors.NotFound) as refused:
        Client("http://service/models", transport=transport).models.list()
    assert refused.value.remedy == (
        "name another. The address itself has the path /models: leave it out, unless a proxy has the service there"
    )
    with pytest.raises(errors.NotFound) as refused:
        Client("http://service/", transport=transport).models.list()
    assert refused.value.remedy == "name another"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host:80\n00", r"http://host:80\n00"),
        ("http://host\r\n", r"http://host\r\n"),
        ("http://me:se\ncret@host/\t", r"http://host/\t"),
        ("http://host\x1b[2J", r"http://host\x1b[2J"),
        ("http://host\u202e", r"http://host\u202e"),
        ("http://host\u2028", r"http://host\u2028"),
        ("http://host/\udcff", r"http://host/\udcff"),
    ],
)
def test_an_address_is_shown_with_control_characters_escaped(
    url: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEHOUSE_URL", url)
    for client in (lambda: Client(url), Client):
        with pytest.raises(errors.ServiceUnreachable) as caught:
            client()
        said = str(caught.value)
        assert said.startswith(f"no Tracehouse service answers at {shown} (")
        assert said.isprintable()


def test_a_name_that_only_the_newer_rules_for_names_allow_is_asked_for() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_host)
        return httpx.Response(200, json={"models": [], "next_cursor": None})

    # Dhivehi for Dhivehi, which ends in a vowel sign.
    client = Client("http://\u078b\u07a8\u0788\u07ac\u0780\u07a8.example", transport=httpx.MockTransport(answer))

    assert client.models.list() == []
    assert asked == [b"xn--hqbpi0jcw.example"]


def test_a_service_without_tls_is_named_with_its_address_and_not_waited_for() -> None:
    """An hour: the test would not end."""

    async def ask(url: str) -> None:
        async with AsyncClient(url, wait_s=3600) as client:
            await client.list_traces()

    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.serve_forever).start()
        address = f"127.0.0.1:{server.server_port}"
        try:
            with pytest.raises(errors.ServiceUnreachable, match=f"without TLS has the address http://{address}"):
                Client(f"https://{address}", wait_s=3600).list_traces()
            with pytest.raises(errors.ServiceUnreachable, match=f"without TLS has the address http://{address}"):
                asyncio.run(ask(f"https://{address}"))
        finally:
            server.shutdown()


def test_a_service_that_is_down_is_named_with_what_to_do() -> None:
    with pytest.raises(errors.ServiceUnreachable, match=r"at http://127.0.0.1:9 .*tracehouse serve.*TRACEHOUSE_URL"):
        Client("127.0.0.1:9").models.list()


def test_the_async_client_says_the_same() -> None:
    async def ask() -> None:
        async with AsyncClient("127.0.0.1:9") as client:
            await client.models.list()

    with pytest.raises(errors.ServiceUnreachable, match=r"at http://127\.0\.0\.1:9"):
        asyncio.run(ask())


@pytest.mark.parametrize(
    "reply",
    [httpx.Response(200, text="<html>"), httpx.Response(404, text="<html>"), httpx.Response(404, json=["no"])],
)
def test_another_server_at_the_address_is_no_service(reply: httpx.Response) -> None:
    with pytest.raises(errors.UnexpectedReply, match="address"):
        answering(reply).models.list()


def test_what_a_refusal_quotes_does_not_act_on_a_terminal() -> None:
    detail = "forward raised \x1b]8;;http://there\x07here\x1b]8;;\x07 \x9b2J"
    with pytest.raises(errors.InvalidRequest) as refused:
        answering(refusing(422, detail=detail, file="net.py", line=2, source="x = 1  # \u202e\u061c")).models.list()

    assert r"forward raised \x1b]8;;http://there\x07here\x1b]8;;\x07 \x9b2J" in str(refused.value)
    assert r"net.py:2: x = 1  # \u202e\u061c" in str(refused.value)
    assert refused.value.detail == detail, "a program gets it as it came"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, errors.KeyRefused), (403, errors.NotAllowed), (404, errors.NotFound), (409, errors.Conflict),
        (412, errors.Conflict), (422, errors.InvalidRequest), (413, errors.InvalidRequest), (429, errors.TryLater),
        (503, errors.TryLater), (500, errors.ServiceFault), (502, errors.ServiceFault),
    ],
)  # fmt: skip
def test_a_refusal_is_typed_and_has_its_problem(status: int, kind: type[errors.ServiceRefused]) -> None:
    with pytest.raises(kind) as refused:
        answering(refusing(status, remedy="do otherwise")).models.list()

    assert type(refused.value) is kind
    assert (refused.value.code, refused.value.detail) == ("no", "it is so")


def test_a_problem_reads_as_a_person_needs_it() -> None:
    problem = {
        "file": "net.py", "line": 3, "source": "return x", "names": ["a", "b"], "remedy": "rename it",
    }  # fmt: skip
    with pytest.raises(errors.InvalidRequest) as refused:
        answering(refusing(422, **problem)).models.list()

    assert str(refused.value).splitlines() == [
        "No (no)", "  it is so", "  net.py:3: return x", "  names: a, b", "  What to do: rename it",
    ]  # fmt: skip


def test_each_place_of_an_invalid_request_is_named() -> None:
    places = [{"pointer": "/model", "detail": "a name is short"}, {"pointer": "/mode", "detail": "no such mode"}]
    with pytest.raises(errors.InvalidRequest, match=r"/model: a name is short\n  /mode: no such mode"):
        answering(refusing(422, errors=places)).models.list()


@pytest.mark.parametrize(("key", "said"), [(None, r"give a key as Client\(key"), ("th_x", "not known here")])
def test_a_missing_key_and_a_wrong_one_are_told_apart(key: str | None, said: str) -> None:
    with pytest.raises(errors.KeyRefused, match=f"{said}.*tracehouse keys create") as refused:
        answering(refusing(401), key).models.list()

    assert refused.value.remedy is not None


def test_a_text_that_is_no_key_is_refused_before_it_is_sent() -> None:
    with pytest.raises(errors.NotSendable, match="this is no API key"):
        Client(key="two words")


def test_the_key_goes_with_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return httpx.Response(200, json={"models": [], "next_cursor": None})

    answering(answer, " th_1\n").models.list()
    monkeypatch.setenv("TRACEHOUSE_KEY", "th_2")
    answering(answer).models.list()
    assert seen == ["Bearer th_1", "Bearer th_2"]


def test_when_to_try_again_is_said() -> None:
    with pytest.raises(errors.TryLater) as refused:
        answering(refusing(503, {"retry-after": "7"})).models.list()

    assert refused.value.retry_after_s == 7


@pytest.mark.parametrize("wait", ["9" * 400, "soon", "-1"])
def test_a_time_that_nobody_waits_is_not_said(wait: str) -> None:
    with pytest.raises(errors.TryLater) as refused:
        answering(refusing(503, {"retry-after": wait})).models.list()

    assert refused.value.retry_after_s is None


def busy(asked: list[httpx.Request], wait: str | None = "0", until: int = 100) -> httpx.MockTransport:
    """A service that has too much to do for the first requests, and says when to come back."""
    taken = {"id": "0" * 32, "state": "queued", "models": [], "next_cursor": None}

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) < until:
            return refusing(503, {} if wait is None else {"retry-after": wait})
        return httpx.Response(200, json=taken)

    return httpx.MockTransport(answer)


def test_a_service_that_says_to_come_back_soon_is_asked_again() -> None:
    async def ask(asked: list[httpx.Request]) -> list[Any]:
        async with AsyncClient("http://service", transport=busy(asked, until=3)) as client:
            return [*await client.models.list()]

    at_once: list[httpx.Request] = []
    in_a_loop: list[httpx.Request] = []

    assert Client("http://service", transport=busy(at_once, until=3)).models.list() == []
    assert asyncio.run(ask(in_a_loop)) == []
    assert (len(at_once), len(in_a_loop)) == (3, 3)


@pytest.mark.parametrize(("wait", "tries"), [("0", 3), (None, 1), ("3600", 1), ("soon", 1)])
def test_a_service_that_stays_busy_is_asked_a_few_times_at_most(wait: str | None, tries: int) -> None:
    async def ask(asked: list[httpx.Request]) -> None:
        async with AsyncClient("http://service", transport=busy(asked, wait)) as client:
            await client.models.list()

    at_once: list[httpx.Request] = []
    in_a_loop: list[httpx.Request] = []

    with pytest.raises(errors.TryLater):
        Client("http://service", transport=busy(at_once, wait)).models.list()
    with pytest.raises(errors.TryLater):
        asyncio.run(ask(in_a_loop))
    assert (len(at_once), len(in_a_loop)) == (tries, tries)


def test_a_trace_request_is_sent_again_as_the_same() -> None:
    asked: list[httpx.Request] = []
    client = Client("http://service", transport=busy(asked, until=3))
    for _ in range(2):
        client.trace("torch.nn:Linear", np.ones((1, 2), np.float32), args=[2, 3])

    keys = [one.headers["idempotency-key"] for one in asked]
    assert keys[0] == keys[1] == keys[2] != keys[3]
    parts = [one.content.split(one.headers["content-type"].partition("boundary=")[2].encode()) for one in asked]
    assert parts[0] == parts[1] == parts[2] == parts[3]
    assert b"inputs.safetensors" in asked[2].content


def test_what_might_be_done_twice_is_not_sent_again() -> None:
    asked: list[httpx.Request] = []

    with pytest.raises(errors.TryLater):
        Client("http://service", transport=busy(asked)).models.promote("net", 1)
    assert [one.method for one in asked] == ["POST"]


ASK: list[Callable[[Client], Any]] = [
    lambda client: client.models.list(),
    lambda client: client.models.get("net"),
    lambda client: client.models.promote("net", 1),
    lambda client: client.models.set_alias("net", "prod", 1),
    lambda client: client.keys.list(),
    lambda client: client.environments(),
    lambda client: client.infer("net", [1.0]),
    lambda client: client.get_trace("0" * 32).result(progress=False),
]


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize(
    "document",
    [
        b"\xff", b"[" * 100_000, b"null", b"1", b'"text"', b"[]", b"{}", b'{"state": "running"}', b'{"title": 1}',
        b'{"title": "x", "errors": 5, "detail": {}}', b'{"title": "x", "errors": [5, {}]}',
    ],
)  # fmt: skip
def test_whatever_answers_the_error_is_one_of_the_clients(
    ask: Callable[[Client], Any], document: bytes, status: int
) -> None:
    with pytest.raises(errors.ClientError):
        ask(answering(lambda _: httpx.Response(status, content=document)))


def test_an_answer_that_is_damaged_on_its_way_is_named() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"damaged"))

    with pytest.raises(errors.UnexpectedReply, match="damaged"):
        answering(answer).models.list()


def test_a_password_in_the_address_is_sent_and_shown_nowhere() -> None:
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["authorization"])
        return httpx.Response(404, text="<html>")

    client = Client("https://me:secret@proxy/there", transport=httpx.MockTransport(answer))
    with pytest.raises(errors.UnexpectedReply, match="https://proxy/there answers with 404") as refused:
        client.models.list()

    assert sent[0].startswith("Basic ")
    assert "secret" not in str(refused.value)


def test_a_newer_service_is_named() -> None:
    artifact = {"contract": {"methods": {}, "made_of": "news"}, "versions": {"tracehouse": "9.1"}}
    model = {
        "name": "net", "default_version": 1, "aliases": [],
        "versions": [{"version": 1, "artifacts": {"cpu": "sha256:0"}, "buckets": []}],
    }  # fmt: skip

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=artifact if "artifacts" in request.url.path else model)

    with pytest.raises(errors.UnexpectedReply, match=r"Tracehouse 9\.1.*install the same release"):
        answering(answer).infer("net", [1.0])


def test_a_download_that_fails_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    file = tmp_path / "net.pt"
    file.write_bytes(b"of yesterday")
    ended = {"id": "0" * 32, "state": "succeeded", "verdict": "verified", "artifacts": [{"digest": "sha256:0"}]}
    method = {"arguments": [], "inputs": [], "outputs": [], "returns": {"list": []}}
    artifact = {"digest": "sha256:0", "contract": {"methods": {"forward": method}}, "verdict_sentence": "verified"}

    def answer(request: httpx.Request) -> httpx.Response:
        match request.url.path.rpartition("/")[2]:
            case "archive":
                return httpx.Response(200, stream=Cut())
            case "sha256:0":
                return httpx.Response(200, json=artifact)
        return httpx.Response(200, json=ended)

    with pytest.raises(errors.ServiceUnreachable):
        answering(answer).get_trace("0" * 32).download(file)

    assert file.read_bytes() == b"of yesterday"
    assert [*tmp_path.iterdir()] == [file]


class Cut(httpx.SyncByteStream):
    """A reply that ends too early."""

    def __iter__(self) -> Iterator[bytes]:
        yield b"half"
        raise httpx.ReadError("cut")


def test_all_pages_of_a_list_are_read() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        cursor = request.url.params.get("cursor")
        model = {"name": cursor or "first", "default_version": None, "versions": [], "aliases": []}
        return httpx.Response(200, json={"models": [model], "next_cursor": None if cursor else "second"})

    assert [model.name for model in answering(answer).models.list()] == ["first", "second"]


def test_a_stream_that_is_cut_is_gone_on_with_and_a_service_that_is_gone_keeps_the_request() -> None:
    request = {"id": "0" * 32, "state": "running", "stage": "tracing", "progress": 0.5, "problem": None}
    ended = request | {"state": "failed", "problem": {"title": "No", "code": "no"}}
    replies = iter([request, request, None, ended])

    def answer(asked: httpx.Request) -> httpx.Response:
        document = next(replies)
        if document is None:
            raise httpx.RemoteProtocolError("cut")
        return httpx.Response(200, json=document)

    trace = answering(answer).get_trace("0" * 32)
    with pytest.raises(errors.TraceFailed):
        trace.result()

    def cut(asked: httpx.Request) -> httpx.Response:
        if asked.url.path.endswith("/events"):
            raise httpx.RemoteProtocolError("cut")
        return httpx.Response(200, json=request)

    with pytest.raises(errors.ServiceUnreachable) as gone:
        answering(cut).get_trace("0" * 32).wait()
    assert "client.get_trace('000" in gone.value.__notes__[0]


def test_a_service_that_dies_under_who_waits_keeps_the_request_and_that_is_said() -> None:
    request = {"id": "0" * 32, "state": "running", "stage": "tracing", "progress": 0.5, "problem": None}
    replies = iter([request, request])

    def die(asked: httpx.Request) -> httpx.Response:
        if (document := next(replies, None)) is None:
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json=document)

    trace = answering(die).get_trace("0" * 32)
    with pytest.raises(errors.ServiceUnreachable) as gone:
        trace.wait()
    assert "client.get_trace('000" in gone.value.__notes__[0]


def test_what_a_flow_has_opened_ends_when_it_is_interrupted() -> None:
    """Such as a line of progress on a terminal, under the traceback that follows."""
    closed = []

    def interrupt(request: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt

    def flow() -> Flow[None]:
        try:
            yield Ask("GET", "/")
        finally:
            closed.append(True)

    running = flow()
    with pytest.raises(KeyboardInterrupt):
        Connection(Address("http://service", None), httpx.MockTransport(interrupt)).run(running)
    assert closed == [True]
