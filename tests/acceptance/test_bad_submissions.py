"""Bad submissions: each is answered with its problem, and the next request with what it asked for."""

import io
import json
import socket
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import pytest

from tests.acceptance.conftest import ANSWER_S, LINEAR, Service, ended, linear

# What never ends is given up after it, and what is traced must end before it. What computes for ever is given up after
# fewer seconds of the processor: everything else takes far less.
TRACE_WALL_S, TRACE_CPU_S = 20, 8
X = {"datatype": "FP32", "shape": [1, 2], "random": {"seed": 0}}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One whose limits are soon reached."""
    state = tmp_path_factory.mktemp("service") / "state"
    limits = {"TRACE_WALL_S": str(TRACE_WALL_S), "TRACE_CPU_S": str(TRACE_CPU_S), "TRACE_MEMORY_MIB": "4096"}
    running = Service(state, **limits)
    yield running
    running.close()


@dataclass
class Bad:
    """A submission and the problem that it must be answered with, at the door or as the trace request's end."""

    code: str
    spec: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    at_the_door: int | None = None


def source(text: str, entrypoint: str = "net:Net", **init: Any) -> dict[str, Any]:
    return {"source": {"files": {"net.py": text}, "entrypoint": entrypoint, "init": init}}


def forward(*lines: str) -> dict[str, Any]:
    """A module whose `forward` is these lines."""
    body = "\n        ".join(lines)
    head = "import ctypes, os, sys, torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        "
    return source(f"{head}{body}\n")


def uploaded(name: str) -> dict[str, Any]:
    return {"source": {"file": name, "entrypoint": "net:Net"}}


def zipped(**members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return packed.getvalue()


def zip_with_symlink() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        link = zipfile.ZipInfo("net.py")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    return packed.getvalue()


def npz(**arrays: Any) -> bytes:
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return packed.getvalue()


def torch_saved(value: Any) -> bytes:
    import torch

    packed = io.BytesIO()
    torch.save(value, packed)
    return packed.getvalue()


class Payload:
    """Unpickled without care, this would run a command."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return print, ("unpickled",)


WEIGHTS = {"weights": {"file": "w.safetensors"}}
FROM_FILE = {"example_inputs": [{"file": "x.npz", "key": "x"}]}

CASES: dict[str, Bad] = {
    # the source
    "a syntax error": Bad("source-syntax-error", source("class Net(:\n")),
    "an indentation error": Bad("source-syntax-error", source("def f():\nreturn 1\n", "net:f")),
    "a NUL byte in the source": Bad("source-syntax-error", source("x = 1\0\n")),
    "an import of what is not here": Bad("source-import-failed", source("import no_such_package\n")),
    "an import of a file that was not sent": Bad("source-import-failed", source("from layers import Net\n")),
    "source that raises": Bad("source-raised", source("raise ValueError('no')\n")),
    "no such entrypoint": Bad("entrypoint-not-found", source(LINEAR, "net:Nett")),
    "no such module": Bad("entrypoint-not-found", source(LINEAR, "other:Net")),
    "an entrypoint that is a number": Bad("entrypoint-unusable", source("Net = 7\n")),
    "an unknown init argument": Bad("init-failed", source(LINEAR, kwargs={"widht": 3})),
    "an init argument of a wrong type": Bad("init-failed", source(LINEAR, args=["two"])),
    "a method that does not exist": Bad(
        "trace-method-not-found", {"example_inputs": [], "methods": {"encode": {"example_inputs": [X]}}}
    ),
    # archives
    "a zip that is none": Bad("source-unreadable", uploaded("net.zip"), {"net.zip": b"not a zip"}),
    "a truncated zip": Bad("source-unreadable", uploaded("net.zip"), {"net.zip": zipped(**{"net.py": LINEAR})[:60]}),
    "zip slip": Bad("source-unsafe", uploaded("net.zip"), {"net.zip": zipped(**{"../../net.py": LINEAR})}),
    "an absolute name in a zip": Bad("source-unsafe", uploaded("net.zip"), {"net.zip": zipped(**{"/net.py": LINEAR})}),
    "a symbolic link in a zip": Bad("source-unsafe", uploaded("net.zip"), {"net.zip": zip_with_symlink()}),
    "a zip bomb": Bad("source-too-large", uploaded("net.zip"), {"net.zip": zipped(**{"net.py": "#" * 200_000_000})}),
    # weights
    "weights that were not uploaded": Bad("file-not-uploaded", WEIGHTS, at_the_door=422),
    "weights that are no safetensors": Bad("weights-unreadable", WEIGHTS, {"w.safetensors": b"nothing"}),
    "a pickle with code in it": Bad(
        "weights-unreadable", {"weights": {"file": "w.pt"}}, {"w.pt": torch_saved({"linear.weight": Payload()})}
    ),
    "weights with a missing name": Bad(
        "weights-mismatch", {"weights": {"file": "w.pt"}}, {"w.pt": torch_saved({})}
    ),
    # inputs
    "inputs of a wrong shape": Bad("model-raised", {"example_inputs": [X | {"shape": [1, 5]}]}),
    "inputs of a wrong datatype": Bad("model-raised", {"example_inputs": [X | {"datatype": "INT64"}]}),
    "an unknown argument name": Bad("argument-mismatch", {"example_inputs": [], "example_kwarg_inputs": {"y": X}}),
    "too many arguments": Bad("argument-mismatch", {"example_inputs": [X, X]}),
    "an inputs file that is none": Bad("inputs-unreadable", FROM_FILE, {"x.npz": b"nothing"}),
    "a key that the inputs file lacks": Bad("inputs-unreadable", FROM_FILE, {"x.npz": npz(y=np.zeros(2))}),
    "an object array": Bad("inputs-unreadable", FROM_FILE, {"x.npz": npz(x=np.array([{}], dtype=object))}),
    "an unknown datatype": Bad("invalid-request", {"example_inputs": [X | {"datatype": "COMPLEX"}]}, at_the_door=422),
    "values that do not fill the shape": Bad(
        "invalid-request",
        {"example_inputs": [{"datatype": "FP32", "shape": [2], "data": [1]}]},
        at_the_door=422,
    ),
    # the model
    "forward raises": Bad("model-raised", forward("raise RuntimeError('no')")),
    "outputs that are no tensors": Bad("output-not-tensor", forward("return 'text'")),
    "a dict of dicts without strict": Bad(
        "unsupported-dict", forward("return {'a': {'b': x}}") | {"options": {"strict": False}}
    ),
    # behaviour
    "an infinite loop": Bad("limit-exceeded", forward("while True: pass")),
    "sleeps for ever": Bad("limit-exceeded", source("import time\ntime.sleep(10**6)\n")),
    "sys.exit": Bad("model-exited", source("import sys\nsys.exit(3)\n")),
    "os._exit": Bad("model-exited", source("import os\nos._exit(0)\n")),
    "os._exit within forward": Bad("model-exited", forward("os._exit(3)")),
    "a segfault": Bad("model-crashed", forward("return ctypes.string_at(0)")),
    "an abort": Bad("model-crashed", source("import os\nos.abort()\n")),
    "kills itself": Bad("model-crashed", source("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")),
    "too much memory": Bad("limit-exceeded", forward("return torch.zeros(2**40).sum() + x")),
    "too deep a recursion": Bad("model-raised", forward("return self.forward(x)")),
    "far more on standard output than is kept": Bad(
        "model-raised", forward("for _ in range(200): print('x' * 2**20)", "raise RuntimeError('printed')")
    ),
    "bytes that are no text on standard output": Bad(
        "model-raised", forward(r"os.write(1, b'\xff\x00\x1b[2J' * 100)", "raise RuntimeError('printed')")
    ),
    "closes every descriptor": Bad("model-exited", source("import os\nos.closerange(0, 64)\nos._exit(0)\n")),
    "an exception that cannot be shown": Bad(
        "source-raised",
        source("class Evil(Exception):\n    def __str__(self): raise ValueError\nraise Evil()\n"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_bad_submission_gets_its_problem_and_harms_nobody(client: httpx.Client, case: Bad) -> None:
    problem = submit(client, case)
    assert problem["code"] == case.code, problem
    assert problem["title"]
    assert problem["detail"]
    assert "Traceback" not in problem["detail"]
    # Without the layers of the check, which take half of a trace: what is shown is that the next one is traced.
    good = ended(client, client.post("/trace", json=linear(force=True, check={"probes": "off"})))
    assert good["verdict"] == "verified"


def submit(client: httpx.Client, case: Bad) -> dict[str, Any]:
    """The problem, from the reply or from the trace request's end."""
    spec = linear(model="bad", **{"force": True} | case.spec)
    if case.files:
        parts: list[tuple[str, Any]] = [("request", ("request.json", json.dumps(spec), "application/json"))]
        parts += [("files", (name, content)) for name, content in case.files.items()]
        answer = client.post("/trace", files=parts)
    else:
        answer = client.post("/trace", json=spec)
    if case.at_the_door:
        assert answer.status_code == case.at_the_door
        assert answer.headers["content-type"] == "application/problem+json"
        refused: dict[str, Any] = answer.json()
        return refused
    request = ended(client, answer)
    assert request["state"] == "failed", request
    problem: dict[str, Any] = request["problem"]
    return problem


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "malformed-json"),
        (b"{", "malformed-json"),
        (b"\xff\xfe", "malformed-json"),
        (b'{"model": NaN}', "malformed-json"),
        (b"[" * 10_000 + b"]" * 10_000, "malformed-json"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "malformed-json"),
        (b"[]", "invalid-request"),
        (b"null", "invalid-request"),
        (b'{"model": "a/b"}', "invalid-request"),
        (json.dumps(linear(example_inputs=json.loads("[" * 500 + "]" * 500))).encode(), "malformed-json"),
    ],
    ids=[
        "empty",
        "cut",
        "not text",
        "NaN",
        "10,000 lists deep",
        "10,000 objects deep",
        "a list",
        "null",
        "name",
        "deep",
    ],
)
def test_a_body_without_a_request_is_refused(client: httpx.Client, body: bytes, code: str) -> None:
    answer = client.post("/trace", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) in [(400, code), (422, code)]


def test_two_gibibytes_are_refused_before_they_are_sent(service: Service) -> None:
    with connect(service) as connection:
        connection.sendall(
            b"POST /trace HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
            b"Content-Length: 2147483648\r\n\r\n"
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")


def test_an_upload_that_is_cut_leaves_nothing_behind(service: Service, client: httpx.Client) -> None:
    before = blobs(service)
    with connect(service) as connection:
        connection.sendall(
            b"POST /trace HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
            b"Content-Length: 100000\r\n\r\n--b\r\nContent-Disposition: form-data; name=files; filename=w.pt\r\n\r\nabc"
        )
    assert client.post("/trace", json=linear(force=True)).status_code == 202
    assert client.get("/livez").is_success
    assert blobs(service) - before == set()


def test_a_multipart_body_without_its_end_is_refused(client: httpx.Client) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="request"\r\n\r\n{"model"'
    answer = client.post("/trace", content=body, headers={"content-type": "multipart/form-data; boundary=b"})
    assert (answer.status_code, answer.json()["code"]) == (400, "upload-truncated")


@pytest.mark.parametrize("name", ["../w.pt", "/etc/w.pt", "a\\w.pt", "..", "w\x00.pt", ".hidden.pt"])
def test_an_upload_whose_name_is_a_path_is_refused(client: httpx.Client, name: str) -> None:
    spec = json.dumps(linear(weights={"file": "w.pt"}))
    answer = client.post(
        "/trace", files=[("request", ("r.json", spec, "application/json")), ("files", (name, b"weights"))]
    )
    assert (answer.status_code // 100, answer.json()["code"]) in [(4, "invalid-file-name"), (4, "malformed-multipart")]


def connect(service: Service) -> socket.socket:
    host, port = service.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=ANSWER_S)


def blobs(service: Service) -> set[str]:
    return {str(path) for path in (service.state / "blobs" / "tmp").rglob("*")}
