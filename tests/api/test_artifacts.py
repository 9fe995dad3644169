"""Artifacts: their manifests, printouts, pictures and archives."""

from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient

from service.domain.artifact import Artifact
from tests.api.conftest import ARCHIVE, NODES, problem

UNKNOWN = "sha256:" + "0" * 64


def test_the_manifest_hashes_to_the_digest(steady: TestClient, digest: str) -> None:
    answer = steady.get(f"/artifacts/{digest}")

    said = answer.json()
    links = said.pop("links")
    assert said.pop("digest") == digest == Artifact.model_validate(said).digest
    assert said["contract"]["methods"]["forward"]["inputs"][0]["name"] == "x"
    assert said["check"]["verdict"] == "verified"
    for path in links.values():
        assert steady.get(path).status_code == 200


def test_what_a_client_has_is_not_sent_again(steady: TestClient, digest: str) -> None:
    first = steady.get(f"/artifacts/{digest}")
    assert "immutable" in first.headers["cache-control"]

    again = steady.get(f"/artifacts/{digest}", headers={"if-none-match": f'"other", W/{first.headers["etag"]}'})

    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["", "/printouts", "/printouts/graph", "/graph.svg", "/archive"])
@pytest.mark.parametrize(
    ("name", "status"), [(UNKNOWN, 404), ("sha256:xyz", 422), ("%00", 422), (UNKNOWN.upper(), 422)]
)
def test_a_digest_of_nothing(steady: TestClient, path: str, name: str, status: int) -> None:
    answer = steady.get(f"/artifacts/{name}{path}")

    problem(answer, status, {404: "artifact-not-found", 422: "invalid-request"}[status])


# --- the archive ---------------------------------------------------------------------------------------------


def test_the_archive_comes_whole(steady: TestClient, digest: str) -> None:
    answer = steady.get(f"/artifacts/{digest}/archive")

    assert answer.content == ARCHIVE
    assert answer.headers["content-type"] == "application/octet-stream"
    assert int(answer.headers["content-length"]) == len(ARCHIVE)
    assert answer.headers["content-disposition"].endswith(".pt")
    assert (
        steady.get(f"/artifacts/{digest}/archive", headers={"if-none-match": answer.headers["etag"]}).status_code == 304
    )


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

    problem(answer, 416, "range-not-satisfiable")
    assert answer.headers["content-range"] == f"bytes */{SIZE}"


def test_a_range_of_what_has_changed_means_all_of_it(steady: TestClient, digest: str) -> None:
    answer = steady.get(f"/artifacts/{digest}/archive", headers={"range": "bytes=0-1", "if-range": '"other"'})

    assert (answer.status_code, answer.content) == (200, ARCHIVE)


# --- printouts -----------------------------------------------------------------------------------------------


def test_the_index_says_what_there_is(steady: TestClient, digest: str) -> None:
    assert steady.get(f"/artifacts/{digest}/printouts").json()["printouts"] == [
        {"method": "forward", "submodule": "", "kinds": ["graph", "inlined_graph", "code"]},
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
    document = problem(steady.get(f"/artifacts/{digest}/printouts/graph?{query}"), 404, "printout-not-found")

    assert (document["methods"], document["submodules"]) == (["forward"], ["", "layer"])


def test_a_printout_of_no_kind(steady: TestClient, digest: str) -> None:
    problem(steady.get(f"/artifacts/{digest}/printouts/bytecode"), 422, "invalid-request")


def test_the_picture_is_inert_svg(steady: TestClient, digest: str) -> None:
    answer = steady.get(f"/artifacts/{digest}/graph.svg")

    assert answer.headers["content-type"] == "image/svg+xml"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    texts = [element.text for element in ElementTree.fromstring(answer.text).iter() if element.tag.endswith("text")]
    assert texts == ["x", "aten::linear", "Float(1, 2)", "aten::relu", "Float(1, 2)", "return", "z"]
