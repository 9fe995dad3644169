"""What may be submitted, what is refused and with which problem, and that nothing refused stays on disk."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from uuid import uuid4

import orjson
import pytest
from fastapi.testclient import TestClient

from service.storage.database import Store
from tests.service.api.conftest import REQUEST_MAX_BYTES, UPLOAD_MAX_BYTES, assert_problem, spec

JSON = {"content-type": "application/json"}
UPLOADED = {"file": "net.py", "entrypoint": "net:Net"}


def multipart(*parts: tuple[str, str | None, bytes], boundary: str = "b", end: bytes = b"--b--\r\n") -> bytes:
    """A body by hand: (name, file name, content) of each part."""
    body = b""
    for name, filename, content in parts:
        file = f'; filename="{filename}"' if filename is not None else ""
        body += (
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + content + b"\r\n"
        )
    return body + end


def request(**members: Any) -> tuple[str, None, bytes]:
    return "request", None, orjson.dumps(spec(**members))


NET = ("files", "net.py", b"import torch\n")
MULTIPART = {"content-type": "multipart/form-data; boundary=b"}


@dataclass
class Bad:
    """A submission that is refused, and how."""

    status: int
    code: str
    body: bytes
    headers: dict[str, str] = field(default_factory=lambda: JSON)
    pointer: str | None = None


def bad_json(code: str, body: bytes) -> Bad:
    return Bad(400, code, body)


def bad_spec(pointer: str, code: str = "invalid-request", **members: Any) -> Bad:
    return Bad(422, code, orjson.dumps(spec(**members)), pointer=pointer)


def bad_parts(status: int, code: str, *parts: tuple[str, str | None, bytes], pointer: str | None = None) -> Bad:
    return Bad(status, code, multipart(*parts), MULTIPART, pointer)


def without(member: str) -> bytes:
    return orjson.dumps({name: value for name, value in spec().items() if name != member})


FP32 = {"datatype": "FP32", "shape": [2]}

BAD: dict[str, Bad] = {
    "no body": bad_json("malformed-json", b""),
    "not JSON": bad_json("malformed-json", b"model=net"),
    "cut off in the middle": bad_json("malformed-json", b'{"model": "net"'),
    "NaN": bad_json("malformed-json", b'{"model": NaN}'),
    "a number too large for a double": bad_json("malformed-json", b'{"model": 1e999}'),
    "a byte order mark": bad_json("malformed-json", b"\xef\xbb\xbf{}"),
    "not UTF-8": bad_json("malformed-json", b'{"model": "\xff"}'),
    "a lone surrogate": bad_json("malformed-json", b'{"model": "\\ud800"}'),
    "10,000 levels": bad_json("malformed-json", b"[" * 10_000 + b"]" * 10_000),
    "101 levels": bad_json("malformed-json", b'{"example_inputs":' + b"[" * 101 + b"]" * 101 + b"}"),
    "a list": Bad(422, "invalid-request", b"[]", pointer=""),
    "texts beside one .py": bad_spec(
        "/source", source={"file": "net.py", "files": {"a.py": ""}, "entrypoint": "net:Net"}
    ),
    "null": Bad(422, "invalid-request", b"null", pointer=""),
    "no model": Bad(422, "invalid-request", without("model"), pointer="/model"),
    "no source": Bad(422, "invalid-request", without("source"), pointer="/source"),
    "no inputs": Bad(422, "invalid-request", without("example_inputs"), pointer=""),
    "a misspelt member": bad_spec("/exampel_inputs", exampel_inputs=[]),
    "a model's name with a slash": bad_spec("/model", model="a/b"),
    "a model's name with a newline": bad_spec("/model", model="net\n"),
    "a model's name with a NUL": bad_spec("/model", model="a\x00b"),
    "an entrypoint without a module": bad_spec(
        "/source/entrypoint", source={"files": {"a.py": ""}, "entrypoint": "Net"}
    ),
    "a source path that climbs": bad_spec(
        "/source/files/..~1a.py", source={"files": {"../a.py": ""}, "entrypoint": "a:N"}
    ),
    "an absolute source path": bad_spec("/source/files/~1a.py", source={"files": {"/a.py": ""}, "entrypoint": "a:N"}),
    "both files and a file": bad_spec("/source", source={"files": {"a.py": ""}, "file": "a.py", "entrypoint": "a:N"}),
    "an unknown datatype": bad_spec(
        "/example_inputs/0/datatype", example_inputs=[{"datatype": "FP8", "shape": [1], "data": [1]}]
    ),
    "a shape that the data does not have": bad_spec(
        "/example_inputs/1", example_inputs=[1, {**FP32, "data": [1, 2, 3]}]
    ),
    "a tensor without values": bad_spec("/example_inputs/data", example_inputs=FP32),
    "a random tensor of terabytes": bad_spec(
        "/example_inputs/0", example_inputs=[{"datatype": "FP32", "shape": [2**40], "random": {}}]
    ),
    "a negative seed": bad_spec(
        "/example_inputs/0/a/random/seed", example_inputs=[{"a": {**FP32, "random": {"seed": -1}}}]
    ),
    "inputs twice": bad_spec("/methods/forward", methods={"forward": {"example_inputs": [1]}}),
    "a check of an untraced method": bad_spec(
        "/check/check_inputs/0/method", check={"check_inputs": [{"method": "other", "example_inputs": [1]}]}
    ),
    "samples of an untraced method": bad_spec(
        "/check/samples/0/method", check={"samples": [{"file": "s.npz", "method": "other"}]}
    ),
    "samples in a file of another kind": bad_spec("/check/samples/0/file", check={"samples": [{"file": "s.gif"}]}),
    "a picture without an upload": bad_spec(
        "/check/samples/0/file", "file-not-uploaded", check={"samples": [{"file": "CAT.JPG"}]}
    ),
    "a picture as an input that is no sample": bad_spec("/example_inputs/0/file", example_inputs=[{"file": "cat.png"}]),
    "several samples in a picture": bad_spec("/check/samples/0", check={"samples": [{"file": "cat.png", "count": 2}]}),
    "an image that is none": bad_spec(
        "/check/samples/0", check={"samples": [{"file": "s.npz", "image": {"size": "own"}}]}
    ),
    "a size of an image that is none": bad_spec(
        "/check/samples/0/image/size", check={"samples": [{"file": "cat.png", "image": {"size": [64]}}]}
    ),
    "an image divided by nothing": bad_spec(
        "/check/samples/0/image", check={"samples": [{"file": "cat.png", "image": {"std": [0]}}]}
    ),
    "more samples than a request may have": bad_spec(
        "/check/samples", check={"samples": [{"file": f"{place}.npz", "count": 64} for place in range(9)]}
    ),
    "a mode of the model that is none": bad_spec("/training", training="eval"),
    "a frozen model in train mode": bad_spec("/training", training=True, options={"freeze": True}),
    "gradients of a frozen model": bad_spec("/check/gradients", check={"gradients": True}, options={"freeze": True}),
    "an eager run on two devices": bad_spec("/devices", mode="eager", devices=["cpu", "cuda"]),
    "an eager run with gradients": bad_spec("/check/gradients", mode="eager", check={"gradients": True}),
    "an eager run that is frozen": bad_spec("/options/freeze", mode="eager", options={"freeze": True}),
    "an eager run that is optimized": bad_spec(
        "/options/optimize_for_inference", mode="eager", options={"optimize_for_inference": True}
    ),
    "an eager run with an export": bad_spec("/options/exportability", mode="eager", options={"exportability": True}),
    "an eager run that is accepted unsound": bad_spec("/accept_unsound", mode="eager", accept_unsound=True),
    "an archive that is scripted": bad_spec("/mode", source={"archive": "net.pt"}, mode="script"),
    "an archive with an entrypoint": bad_spec(
        "/source/entrypoint", source={"archive": "net.pt", "entrypoint": "net:Net"}
    ),
    "an archive with a precision": bad_spec(
        "/options/precision", source={"archive": "net.pt"}, options={"precision": "float16"}
    ),
    "a shape of more values than a number has bits": bad_spec(
        "/example_inputs/0", example_inputs=[{"datatype": "FP32", "shape": [2**48] * 32, "data": [1]}]
    ),
    "a tolerance of zero": bad_spec("/check/check_tolerance", check={"check_tolerance": 0}),
    "an unknown mode": bad_spec("/mode", mode="compile"),
    "a device that is not there": bad_spec("/devices/0", devices=["tpu"]),
    "too many devices": bad_spec("/devices", devices=["cpu", "cpu"]),
    "a file without an upload": bad_spec("/source/file", "file-not-uploaded", source=UPLOADED),
    "an inputs file without an upload": bad_spec(
        "/example_inputs/0/0/file", "file-not-uploaded", example_inputs=[[{"file": "x.npz"}]]
    ),
    "a single file as the inputs": bad_spec(
        "/example_inputs/file", "file-not-uploaded", example_inputs={"file": "x.npz"}
    ),
    "source of another kind": bad_spec("/source/file", source={"file": "net.tar", "entrypoint": "net:Net"}),
    "weights of another kind": bad_spec("/weights/file", weights={"file": "weights.bin"}),
    "inputs of another kind": bad_spec("/example_kwarg_inputs/x/file", example_kwarg_inputs={"x": {"file": "x.csv"}}),
    "no content type": Bad(415, "unsupported-media-type", b"{}", {}),
    "a form": Bad(415, "unsupported-media-type", b"a=b", {"content-type": "application/x-www-form-urlencoded"}),
    "JSON in UTF-16": Bad(415, "unsupported-media-type", b"{}", {"content-type": "application/json; charset=utf-16"}),
    "a compressed body": Bad(415, "unsupported-media-type", b"\x1f\x8b", {**JSON, "content-encoding": "gzip"}),
    "a large JSON body": Bad(413, "payload-too-large", b" " * (REQUEST_MAX_BYTES + 1)),
    "2 GiB declared": Bad(413, "payload-too-large", b"{}", {**JSON, "content-length": str(2**31)}),
    "more digits declared than a number has": Bad(
        413, "payload-too-large", b"{}", {**JSON, "content-length": "9" * 5000}
    ),
    "2 GiB of parts declared": Bad(413, "payload-too-large", b"--b--", {**MULTIPART, "content-length": str(2**31)}),
    "a large part request": bad_parts(413, "payload-too-large", ("request", None, b" " * (REQUEST_MAX_BYTES + 1))),
    "a part's header that is not UTF-8": Bad(
        400,
        "malformed-multipart",
        b'--b\r\nContent-Disposition: form-data; name="\xff"\r\n\r\n\r\n--b--\r\n',
        MULTIPART,
    ),
    "no boundary": Bad(400, "malformed-multipart", b"--b--", {"content-type": "multipart/form-data"}),
    "another boundary": Bad(
        400, "malformed-multipart", multipart(request()), {"content-type": "multipart/form-data; boundary=c"}
    ),
    "no parts": Bad(400, "malformed-multipart", b"--b--\r\n", MULTIPART),
    "an empty multipart body": Bad(400, "malformed-multipart", b"", MULTIPART),
    "no end": Bad(400, "upload-truncated", multipart(request(source=UPLOADED), NET, end=b""), MULTIPART),
    "an end within a part": Bad(400, "upload-truncated", multipart(request(source=UPLOADED), NET)[:-20], MULTIPART),
    "an end within a part's header": Bad(
        400, "upload-truncated", multipart(request(), end=b"--b\r\nContent-Disp"), MULTIPART
    ),
    "a part without a header": Bad(400, "malformed-multipart", b"--b\r\n\r\nx\r\n--b--\r\n", MULTIPART),
    "a part of another name": bad_parts(400, "malformed-multipart", request(), ("weights", "w.pt", b"")),
    "two requests": bad_parts(400, "malformed-multipart", request(), request()),
    "two files of one name": bad_parts(400, "malformed-multipart", request(source=UPLOADED), NET, NET),
    "files and no request": bad_parts(400, "malformed-multipart", NET),
    "a request that is not JSON": bad_parts(400, "malformed-json", ("request", None, b"{"), NET),
    "a file without a name": bad_parts(422, "invalid-file-name", request(), ("files", None, b"")),
    "an empty file name": bad_parts(422, "invalid-file-name", request(), ("files", "", b"")),
    "a file name with a slash": bad_parts(422, "invalid-file-name", request(), ("files", "../net.py", b"")),
    "a hidden file": bad_parts(422, "invalid-file-name", request(), ("files", ".bashrc", b"")),
    "a file that nothing refers to": bad_parts(422, "file-not-used", request(), NET),
    "a file that is not there": bad_parts(422, "file-not-uploaded", request(source=UPLOADED), pointer="/source/file"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_a_bad_submission_is_refused_and_leaves_nothing(steady: TestClient, steady_dir: Path, case: Bad) -> None:
    before = steady.get("/trace").json()

    answer = steady.post("/trace", content=case.body, headers=case.headers)

    document = assert_problem(answer, case.status, case.code)
    assert document["fault"] == "caller"
    assert document["detail"]
    assert "Error(" not in document["detail"]  # what Python raised is nothing to a caller
    assert len(answer.content) < 5000
    if case.pointer is not None:
        assert document["errors"][0]["pointer"] == case.pointer
    assert list((steady_dir / "blobs" / "tmp").iterdir()) == []
    assert steady.get("/trace").json() == before
    assert steady.post("/trace", json=spec()).status_code == 200


def test_what_was_sent_is_not_repeated(steady: TestClient) -> None:
    answer = steady.post("/trace", json=spec(mode="secret" * 1000))

    assert "secret" not in answer.text


def test_all_mistakes_are_told_at_once_up_to_a_number(steady: TestClient) -> None:
    answer = steady.post("/trace", json=spec(example_inputs=[{"datatype": "no"}] * 100))

    document = assert_problem(answer, 422, "invalid-request")
    assert len(document["errors"]) == 20
    assert "and 299 more" in document["detail"]


def test_the_place_of_a_mistake_in_json_is_told(steady: TestClient) -> None:
    answer = steady.post("/trace", content=b'{\n  "model": nope}', headers=JSON)

    document = assert_problem(answer, 400, "malformed-json")
    assert (document["line"], document["column"]) == (2, 12)


@pytest.mark.parametrize("order", ["request first", "request last", "request between"])
def test_the_order_of_parts_does_not_matter(client: TestClient, order: str) -> None:
    weights = ("files", "weights.safetensors", b"weights")
    parts = [NET, weights]
    place = {"request first": 0, "request last": 2, "request between": 1}[order]
    parts.insert(place, request(source=UPLOADED, weights={"file": "weights.safetensors"}))

    answer = client.post("/trace", content=multipart(*parts), headers=MULTIPART)

    assert answer.status_code == 202, answer.text


def test_an_uploaded_file_is_kept_byte_for_byte(client: TestClient, staged: Path) -> None:
    source = b"# \x00\xff\r\n--b\r\n-- \r\n" * 60_000
    files = [("request", (None, orjson.dumps(spec("stays", source=UPLOADED)))), ("files", ("net.py", source))]

    submitted = client.post("/trace", files=files)

    answer = client.get(submitted.json()["links"]["source"])
    assert answer.content == source
    assert answer.headers["content-disposition"] == "attachment; filename=\"net.py\"; filename*=UTF-8''net.py"
    assert list(staged.iterdir()) == []


def test_one_file_may_serve_several_uses(client: TestClient) -> None:
    both = request(
        source=UPLOADED, weights={"file": "all.pt"}, example_inputs=[{"tuple": [{"file": "all.pt", "key": "x"}]}]
    )

    answer = client.post("/trace", content=multipart(both, NET, ("files", "all.pt", b"")), headers=MULTIPART)

    assert answer.status_code == 202, answer.text


def test_a_streamed_upload_is_capped_while_it_arrives(client: TestClient, staged: Path) -> None:
    chunks = iter(
        [multipart(request(source=UPLOADED), NET, end=b""), *[b"x" * 100_000] * (UPLOAD_MAX_BYTES // 100_000)]
    )

    answer = client.post("/trace", content=chunks, headers=MULTIPART)

    assert assert_problem(answer, 413, "payload-too-large")["limit"] == UPLOAD_MAX_BYTES
    assert list(staged.iterdir()) == []


def test_the_files_of_a_submission_that_is_refused_are_not_kept(client: TestClient, staged: Path) -> None:
    for number in range(22):
        client.post("/trace", json=spec("stays", options={"seed": number}))

    answer = client.post("/trace", content=multipart(request(source=UPLOADED), NET), headers=MULTIPART)

    assert_problem(answer, 503, "queue-full")
    assert not any(path.is_file() for path in staged.parent.rglob("*"))


ESCAPED = f"{uuid4().hex}.py"
BAD_NAMES = {
    "up": f"../{ESCAPED}",
    "far up": f"../../../../../../../../../..{gettempdir()}/{ESCAPED}",
    "only up": "..",
    "here": ".",
    "absolute": f"{gettempdir()}/{ESCAPED}",
    "a directory": "a/net.py",
    "Windows": "..\\..\\net.py",
    "a drive": "C:net.py",
    "hidden": ".net.py",
    "a NUL": "net.py\x00.txt",
    "a line": "net\n.py",
    "long": "n" * 300 + ".py",
    "outside ASCII": "n\u00e9t.py",
    "an escape": "%2e%2e%2fnet.py",
    "a home": "~/net.py",
    "nothing": "",
}


def files_under(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES.keys())
def test_a_files_name_never_becomes_a_path(client: TestClient, state_dir: Path, name: str) -> None:
    before = files_under(state_dir.parent)
    source = {"file": name, "entrypoint": "net:Net"}

    uploaded = client.post(
        "/trace", content=multipart(request(source=source), ("files", name, b"import torch\n")), headers=MULTIPART
    )
    inline = client.post(
        "/trace",
        json=spec(source={"files": {name: "import torch\n"}, "entrypoint": "net:Net"}),
        headers={"prefer": "wait=30"},
    )

    assert uploaded.status_code in (400, 422)
    assert inline.status_code in (200, 422)  # inline files may lie in directories of the source, which are nowhere
    outside = files_under(state_dir.parent) - before - files_under(state_dir / "blobs")
    assert {path.parent for path in outside} <= {state_dir}
    assert {path.suffix for path in outside} <= {".db", ".db-wal", ".db-shm"}
    assert all(re.fullmatch("[0-9a-f]+", path.name) for path in files_under(state_dir / "blobs"))
    assert not Path(gettempdir(), ESCAPED).exists()


def test_a_files_good_name_is_not_one_on_the_disk(client: TestClient, state_dir: Path) -> None:
    content = b"the content"
    body = multipart(request(source=UPLOADED), ("files", "net.py", content))
    assert client.post("/trace", content=body, headers=MULTIPART).status_code == 202

    kept = [path for path in files_under(state_dir) if path.read_bytes() == content]
    assert [path.parent.parent for path in kept] == [state_dir / "blobs" / "sha256"]
    assert not list(state_dir.rglob("*net.py*"))


WEIGHTS = ("files", "weights.safetensors", b"weights")
WITH_WEIGHTS = {"source": UPLOADED, "weights": {"file": "weights.safetensors"}}


def submit(client: TestClient, *parts: tuple[str, str | None, bytes], **params: str) -> Any:
    return client.post("/trace", params=params, content=multipart(*parts), headers=MULTIPART)


def test_the_files_of_an_earlier_request_need_no_upload(client: TestClient, store: Store) -> None:
    earlier = submit(client, request(**WITH_WEIGHTS), NET, WEIGHTS).json()["id"]
    other = ("files", "net.py", b"import numpy\n")

    same = client.post("/trace", json=spec(**WITH_WEIGHTS, options={"seed": 1}), params={"files_of": earlier})
    edited = submit(client, request(**WITH_WEIGHTS), other, files_of=earlier)
    inline = client.post("/trace", json=spec(weights={"file": "weights.safetensors"}), params={"files_of": earlier})

    assert [one.status_code for one in (same, edited, inline)] == [202] * 3, same.text + edited.text + inline.text
    files = {
        one.json()["id"]: store.trace_requests.get("default", one.json()["id"]).files for one in (same, edited, inline)
    }
    first = store.trace_requests.get("default", earlier).files
    assert files[same.json()["id"]] == first
    assert files[edited.json()["id"]]["weights.safetensors"] == first["weights.safetensors"]
    assert client.get(edited.json()["links"]["source"]).content == b"import numpy\n"
    assert [*files[inline.json()["id"]]] == ["weights.safetensors"]


def test_an_earlier_request_that_lacks_the_file_or_is_not_there(client: TestClient) -> None:
    earlier = submit(client, request(source=UPLOADED), NET).json()["id"]

    lacking = client.post("/trace", json=spec(**WITH_WEIGHTS), params={"files_of": earlier})
    nowhere = client.post("/trace", json=spec(), params={"files_of": "0" * 32})

    assert assert_problem(lacking, 422, "file-not-uploaded")["file"] == "weights.safetensors"
    assert_problem(nowhere, 404, "trace-request-not-found")


def test_texts_beside_a_zip_come_back_and_so_does_the_zip(client: TestClient) -> None:
    source = {"file": "source.zip", "files": {"net.py": "import torch\n"}, "entrypoint": "net:Net"}

    submitted = submit(client, request(source=source), ("files", "source.zip", b"packed")).json()

    address = submitted["links"]["source"]
    assert client.get(address).json() == {
        "entrypoint": "net:Net",
        "files": {"net.py": "import torch\n"},
        "file": "source.zip",
    }
    assert client.get(address, params={"packed": True}).content == b"packed"
