"""Artifacts: their manifests, printouts, pictures and archives."""

import gc
import io
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import anyio
import orjson
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import text

from service.domain.api_key import DEFAULT_TENANT
from service.storage.artifacts import keep as keep_artifact
from service.storage.database import Store
from tests.conftest import damage, keep, make_artifact
from tests.service.api.conftest import ARCHIVE, NODES, PRINTOUTS, assert_problem, spec
from tracehouse.artifact.manifest import Artifact
from tracehouse.artifact.printouts import write

UNKNOWN = "sha256:" + "0" * 64


def test_the_manifest_hashes_to_the_digest(steady: TestClient, digest: str) -> None:
    answer = steady.get(f"/artifacts/{digest}")

    said = answer.json()
    links = said.pop("links")
    assert said.pop("verdict_sentence") == "verified"
    assert (said.pop("withdrawn_by"), said.pop("later_checks")) == (None, [])
    assert said.pop("digest") == digest == Artifact.model_validate(said).digest
    assert said["contract"]["methods"]["forward"]["inputs"][0]["name"] == "x"
    assert said["check"]["verdict"] == "verified"
    assert links.pop("exported") is None
    assert links.pop("counterexamples") == []
    for path in links.values():
        assert steady.get(path).status_code == 200


def test_an_artifact_that_the_client_has_is_not_sent_again(steady: TestClient, digest: str) -> None:
    first = steady.get(f"/artifacts/{digest}")
    assert "no-cache" in first.headers["cache-control"], "later checks may come to something"
    assert "immutable" in steady.get(f"/artifacts/{digest}/archive").headers["cache-control"]

    again = steady.get(f"/artifacts/{digest}", headers={"if-none-match": f'"other", W/{first.headers["etag"]}'})

    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["", "/printouts", "/printouts/graph", "/graph.svg", "/archive", "/signature"])
@pytest.mark.parametrize(
    ("name", "status"), [(UNKNOWN, 404), ("sha256:xyz", 422), ("%00", 422), (UNKNOWN.upper(), 422)]
)
def test_an_unknown_or_malformed_digest_is_refused(steady: TestClient, path: str, name: str, status: int) -> None:
    answer = steady.get(f"/artifacts/{name}{path}")

    assert_problem(answer, status, {404: "artifact-not-found", 422: "invalid-request"}[status])


def test_the_archive_comes_whole(steady: TestClient, digest: str) -> None:
    answer = steady.get(f"/artifacts/{digest}/archive")

    assert answer.content == ARCHIVE
    assert answer.headers["content-type"] == "application/octet-stream"
    assert int(answer.headers["content-length"]) == len(ARCHIVE)
    assert answer.headers["content-disposition"].endswith(".pt")
    assert (
        steady.get(f"/artifacts/{digest}/archive", headers={"if-none-match": answer.headers["etag"]}).status_code == 304
    )


def test_a_damaged_file_is_never_sent(client: TestClient, store: Store) -> None:
    whole = make_artifact(archive=keep(store.blobs, b"an archive"), printouts=keep(store.blobs, write(PRINTOUTS)))
    with store.artifacts._transactions.write() as connection:
        keep_artifact(connection, DEFAULT_TENANT, whole)
    path = f"/artifacts/{whole.digest}"
    etag = client.get(f"{path}/archive").headers["etag"]

    for blob in (whole.archive, whole.printouts):
        damage(store.blobs, blob.digest)

    for sent in ({}, {"range": "bytes=0-1"}, {"if-none-match": '"another"'}):
        answer = client.get(f"{path}/archive", headers=sent)
        assert assert_problem(answer, 500, "content-damaged")["digest"] == whole.archive.digest
        assert "etag" not in answer.headers
    for printouts in ("/printouts", "/printouts/graph", "/graph.svg"):
        answer = client.get(f"{path}{printouts}")
        assert assert_problem(answer, 500, "content-damaged")["digest"] == whole.printouts.digest
    keep(store.blobs, b"an archive")
    mended = client.get(f"{path}/archive")
    assert (mended.content, mended.headers["etag"]) == (b"an archive", etag)


def test_a_damaged_manifest_is_never_shown(client: TestClient, store: Store) -> None:
    artifact = make_artifact(entrypoint="net:Right")
    with store.artifacts._transactions.write() as connection:
        keep_artifact(connection, DEFAULT_TENANT, artifact)
        connection.execute(text("UPDATE artifacts SET manifest = replace(manifest, 'net:Right', 'net:Wrong')"))

    for path in ("", "/archive", "/report", "/printouts"):
        answer = client.get(f"/artifacts/{artifact.digest}{path}")
        assert assert_problem(answer, 500, "content-damaged")["digest"] == artifact.digest


SIZE = len(ARCHIVE)


@pytest.mark.parametrize(
    ("asked", "first", "past"),
    [("bytes=0-9", 0, 10), ("bytes=100-", 100, SIZE), ("bytes=-7", SIZE - 7, SIZE), (f"bytes=5-{SIZE * 2}", 5, SIZE)],
)
def test_a_part_of_the_archive(steady: TestClient, digest: str, asked: str, first: int, past: int) -> None:
    answer = steady.get(f"/artifacts/{digest}/archive", headers={"range": asked})

    assert (answer.status_code, answer.content) == (206, ARCHIVE[first:past])
    assert answer.headers["content-range"] == f"bytes {first}-{past - 1}/{SIZE}"


@pytest.mark.parametrize(
    "asked", ["bytes=9-5", "bytes=0-1,3-4", "lines=1-2", "bytes=-", "bytes=a-b", "x", f"bytes=-{SIZE * 9}"]
)
def test_a_range_that_means_all_of_it(steady: TestClient, digest: str, asked: str) -> None:
    answer = steady.get(f"/artifacts/{digest}/archive", headers={"range": asked})

    assert (answer.status_code, answer.content) == (200, ARCHIVE)


def test_a_range_beyond_the_end(steady: TestClient, digest: str) -> None:
    answer = steady.get(f"/artifacts/{digest}/archive", headers={"range": f"bytes={SIZE}-"})

    assert_problem(answer, 416, "range-not-satisfiable")
    assert answer.headers["content-range"] == f"bytes */{SIZE}"


def test_a_range_of_what_has_changed_means_all_of_it(steady: TestClient, digest: str) -> None:
    answer = steady.get(f"/artifacts/{digest}/archive", headers={"range": "bytes=0-1", "if-range": '"other"'})

    assert (answer.status_code, answer.content) == (200, ARCHIVE)


def test_the_index_says_what_there_is(steady: TestClient, digest: str) -> None:
    assert steady.get(f"/artifacts/{digest}/printouts").json()["printouts"] == [
        {"method": "forward", "submodule": "", "kinds": ["graph", "inlined_graph", "code", "onnx_trace"]},
        {"method": "", "submodule": "", "kinds": ["dump"]},
        {"method": "forward", "submodule": "layer", "kinds": ["graph"]},
    ]


def test_a_printout_is_text_unless_json_is_asked_for(steady: TestClient, digest: str) -> None:
    path = f"/artifacts/{digest}/printouts/graph"

    assert steady.get(path).text == "graph(%x)\n"
    assert steady.get(path).headers["content-type"] == "text/plain; charset=utf-8"
    assert steady.get(path, params={"submodule": "layer"}).text == "graph(%layer)\n"
    for answer in (
        steady.get(path, headers={"accept": "application/json"}),
        steady.get(path, params={"format": "json"}),
    ):
        node = answer.json()["nodes"][1]
        assert (node["operator"], node["file"], node["line"]) == (NODES[1].operator, "linear.py", 10)
    assert steady.get(path, params={"format": "text"}, headers={"accept": "application/json"}).text == "graph(%x)\n"


@pytest.mark.parametrize("query", ["method=backward", "submodule=head", "method=%00", "submodule=%ED%A0%80"])
def test_a_printout_of_nothing(steady: TestClient, digest: str, query: str) -> None:
    document = assert_problem(steady.get(f"/artifacts/{digest}/printouts/graph?{query}"), 404, "printout-not-found")

    assert (document["methods"], document["submodules"]) == (["forward"], ["", "layer"])


def test_a_printout_of_no_kind(steady: TestClient, digest: str) -> None:
    assert_problem(steady.get(f"/artifacts/{digest}/printouts/bytecode"), 422, "invalid-request")


def test_the_picture_is_inert_svg(steady: TestClient, digest: str) -> None:
    answer = steady.get(f"/artifacts/{digest}/graph.svg")

    assert answer.headers["content-type"] == "image/svg+xml"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    texts = [element.text for element in ElementTree.fromstring(answer.text).iter() if element.tag.endswith("text")]
    assert texts == ["x", "aten::linear", "Float(1, 2)", "aten::relu", "Float(1, 2)", "return", "z"]


Forge = Callable[[bytes], str]


@pytest.fixture
def forge(store: Store) -> Forge:
    """The path of an artifact whose printouts are these bytes."""

    def forged(content: bytes) -> str:
        artifact = make_artifact(printouts=keep(store.blobs, content))
        with store.artifacts._transactions.write() as connection:
            keep_artifact(connection, DEFAULT_TENANT, artifact)
        return f"/artifacts/{artifact.digest}"

    return forged


NAMES = {"kind": "graph", "method": "forward", "submodule": ""}
GRAPH = PRINTOUTS[0].model_dump_json().encode()


def indexed(*entries: Any, rest: bytes = GRAPH) -> bytes:
    return orjson.dumps(entries) + b"\n" + rest


@pytest.mark.parametrize(
    "forged",
    [
        b"junk",
        b"",
        b"\n",
        b"{}",
        b"[1]",
        b"[{}]",
        b"[" * 2000,
        b"[" * 6_000_000,
        b'"' + b'\\"' * 1_000_000 + b"[" * 500_000,
        orjson.dumps([NAMES]),
        orjson.dumps([{**NAMES, "text": "x" * 5_000_000}]),
        indexed(NAMES),
        indexed({**NAMES, "byte_size": -1}),
        indexed({**NAMES, "byte_size": 2**63}),
        indexed({**NAMES, "byte_size": 5_000_000}, rest=b" " * 5_000_000),
        indexed({**NAMES, "byte_size": 10, "offset": 0}),
        indexed({**NAMES, "method": [], "byte_size": 1}),
        indexed({**NAMES, "byte_size": 1} | {str(number): 1 for number in range(60_000)}),
        indexed(*[{}] * 300_000),
        indexed(*[1] * 500_000),
        indexed(*[{**NAMES, "byte_size": 0}] * 1_000_000),
    ],
    ids=lambda forged: f"{forged[:60].decode()} ({len(forged)} bytes)",
)
@pytest.mark.parametrize("path", ["/printouts", "/printouts/graph", "/graph.svg"])
def test_printouts_that_were_made_up_are_not_a_fault_of_ours(
    client: TestClient, forge: Forge, forged: bytes, path: str
) -> None:
    assert_problem(client.get(forge(forged) + path), 404, "printouts-unreadable")


@pytest.mark.parametrize(
    "forged",
    [
        b"",
        b"{}",
        b"[]",
        GRAPH[:-1],
        b"[" + b"{}," * 700_000 + b"{}]",
        GRAPH.replace(b'"nodes":[', b'"nodes":[' + b"{}," * 30_000),
        GRAPH.replace(b'"inputs":[', b'"inputs":[' + b"1," * 1_000_000, 1),
        b"{" + b",".join(b'"%d":1' % number for number in range(300_000)) + b"}",
    ],
    ids=lambda forged: f"{forged[:60].decode()} ({len(forged)} bytes)",
)
def test_a_printout_that_was_made_up_does_not_hide_the_others(client: TestClient, forge: Forge, forged: bytes) -> None:
    entries = [{**NAMES, "byte_size": len(forged)}, {**NAMES, "kind": "inlined_graph", "byte_size": len(GRAPH)}]
    path = forge(indexed(*entries, rest=forged + GRAPH))

    assert_problem(client.get(f"{path}/printouts/graph"), 404, "printouts-unreadable")
    assert_problem(client.get(f"{path}/graph.svg?form=graph"), 404, "printouts-unreadable")
    assert client.get(f"{path}/printouts/inlined_graph").text == PRINTOUTS[0].text


def test_a_printout_beyond_the_end_of_the_file_cannot_be_read(client: TestClient, forge: Forge) -> None:
    path = forge(indexed({**NAMES, "byte_size": len(GRAPH) + 1}))

    assert_problem(client.get(f"{path}/printouts/graph"), 404, "printouts-unreadable")


def test_printouts_from_before_there_was_an_index_are_shown(client: TestClient, forge: Forge) -> None:
    path = forge(orjson.dumps([printout.model_dump() for printout in PRINTOUTS]))

    assert len(client.get(f"{path}/printouts").json()["printouts"]) == 3
    assert client.get(f"{path}/printouts/code").text == PRINTOUTS[2].text
    assert client.get(f"{forge(b'[]')}/printouts").json()["printouts"] == []


def test_a_download_whose_client_goes_away_leaves_no_file_open(app: FastAPI, client: TestClient) -> None:
    traced = client.post("/trace", json=spec(), headers={"prefer": "wait=30"}).json()["artifacts"][0]["digest"]
    path = f"/artifacts/{traced}/archive"
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": [(b"host", b"localhost")], "scheme": "http", "server": ("here", 80), "http_version": "1.1"}
    held = []  # keeps alive what a collector would otherwise close

    async def go_away_in_the_middle() -> None:
        begun = anyio.Event()

        async def receive() -> dict[str, str]:
            await begun.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                held.extend(each for each in gc.get_objects() if isinstance(each, io.BufferedReader))
                begun.set()
                await anyio.sleep_forever()

        await app(scope, receive, send)

    anyio.run(go_away_in_the_middle)

    assert [file.closed for file in held if "/blobs/sha256/" in str(file.name)] == [True]
