"""What an answer costs: this service beside servers that serve the same archive of one model, in one run.

The model is a tiny MLP, or with `--model wide` one whose rows have a thousand numbers.

Printed are, for one and for many callers, as JSON and as bytes: requests a second, the median and the 99th percentile
in milliseconds, and the processor time of the server's processes per request in microseconds. Each reply is compared
with eager's answer. The figures of a run are to be read beside one another: machines are noisy.

    .venv/bin/python benchmarks/serving/measure.py

Servers from the package index are measured too, if `benchmarks/serving/install_peers.sh` has installed them. Each of
them is started and ended alone, and this service is measured before and after all of them.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import orjson
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.service_process import service
from benchmarks.serving import installed_peers, peers
from benchmarks.serving.callers import call, post

SECONDS = 3.0
WARM_S = 1.0
# Features of the input, of the hidden layer and of the output.
MLPS = {"tiny": (16, 32, 4), "wide": (1024, 4096, 1024)}
MLP = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear({}, {}), torch.nn.ReLU(), torch.nn.Linear({}, {}))

    def forward(self, x):
        return self.layers(x)
"""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Side:
    """One server: where it listens, its processes, and the paths that it answers for JSON."""

    name: str
    address: tuple[str, int]
    pid: int
    path: str = "/v2/models/net/infer"
    checked: bool = True
    takes: tuple[str, ...] = ("json", "extension")
    wraps_json: bool = True


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=SECONDS, help="of each cell")
    options.add_argument("--only", default="", help="these sides, separated by commas")
    options.add_argument("--callers", default="1,32", help="numbers of callers, separated by commas")
    options.add_argument("--model", choices=MLPS, default="tiny")
    given = options.parse_args()
    callers = [int(one) for one in given.callers.split(",")]
    features = MLPS[given.model]
    x = np.random.default_rng(0).standard_normal((1, features[0])).astype(np.float32)

    def is_wanted(name: str) -> bool:
        return not given.only or name in given.only.split(",")

    with ExitStack() as stack:
        sides, expected, archive = start(stack, x, features)
        print(f"{'':<22} {'callers':>7} {'form':>9} {'per s':>9} {'p50 ms':>8} {'p99 ms':>8} {'CPU µs':>8}")
        measure_all([side for side in sides if is_wanted(side.name)], x, expected, callers, given.seconds)
        for peer in installed_peers.PEERS:
            if not is_wanted(peer.name):
                continue
            if not peer.is_installed:
                print(f"{peer.name:<22} is not installed")
                continue
            question = json_of(x, wraps=peer.wraps_json)
            try:
                with installed_peers.start(peer, archive, question) as (address, pid):
                    side = Side(peer.name, address, pid, peer.path, takes=peer.takes, wraps_json=peer.wraps_json)
                    measure_all([side], x, expected, callers, given.seconds)
            except (RuntimeError, OSError) as error:
                print(f"{peer.name:<22} failed: {str(error)[-300:]}")
        measure_all([side for side in sides if is_wanted(side.name)], x, expected, callers, given.seconds)


def start(stack: ExitStack, x: np.ndarray, features: tuple[int, int, int]) -> tuple[list[Side], np.ndarray, Path]:
    """Return the sides, all of the same archive, eager's answer, and the archive."""
    url = stack.enter_context(service())
    with httpx.Client(base_url=url, timeout=300) as client:
        traced = (
            client.post("/trace", json=_submission(*features), headers={"prefer": "wait=120"}).raise_for_status().json()
        )
        assert traced["verdict"] == "verified", traced
        digest = client.get("/models/net").json()["versions"][0]["artifacts"]["cpu"]
        archive = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "net.pt"
        archive.write_bytes(client.get(f"/artifacts/{digest}/archive").raise_for_status().content)
    expected = torch.jit.load(archive)(torch.from_numpy(x)).detach().numpy()
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    here = (parts.hostname, parts.port)
    pid = _listener(parts.port)
    fixed = _json_reply(expected)
    bare, bare_pid = stack.enter_context(peers.bare(fixed))
    lean, lean_pid = stack.enter_context(peers.lean(archive))
    return (
        [
            Side("bare ASGI, no model", bare, bare_pid, checked=False),
            Side("lean FastAPI", lean, lean_pid),
            Side("tracehouse /infer", here, pid, "/infer/net", takes=("json", "bytes")),
            Side("tracehouse /v2", here, pid),
        ],
        expected,
        archive,
    )


def mlp(given: int, hidden: int, returned: int) -> str:
    """Return the source of an MLP."""
    return MLP.format(given, hidden, hidden, returned)


def _submission(given: int, hidden: int, returned: int) -> dict[str, object]:
    return {
        "model": "net",
        "source": {"files": {"net.py": mlp(given, hidden, returned)}, "entrypoint": "net:Net"},
        "example_inputs": [{"datatype": "FP32", "shape": [2, given], "random": {"seed": 0}}],
    }


def measure_all(
    sides: Sequence[Side], x: np.ndarray, expected: np.ndarray, callers: Sequence[int], seconds: float
) -> None:
    for count in callers:
        for side in sides:
            for form in side.takes:
                measure(side, x, expected, count, form, seconds)


def measure(side: Side, x: np.ndarray, expected: np.ndarray, callers: int, form: str, seconds: float) -> None:
    request = _requests(side, x)[form]
    check = _checking(expected, form) if side.checked else lambda _: None
    call(side.address, request, callers, WARM_S, check)
    before = _processor_s(side.pid)
    load = call(side.address, request, callers, seconds, check)
    used_us = 1e6 * (_processor_s(side.pid) - before) / len(load.seconds)
    print(
        f"{side.name:<22} {callers:>7} {form:>9} {load.per_s:>9.0f} {load.percentile_ms(0.5):>8.2f}"
        f" {load.percentile_ms(0.99):>8.2f} {used_us:>8.1f}",
        flush=True,
    )


def _requests(side: Side, x: np.ndarray) -> dict[str, bytes]:
    tensor = {"name": "x", "datatype": "FP32", "shape": x.shape, "parameters": {"binary_data_size": x.nbytes}}
    head = orjson.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}})
    bare = {"Content_Type": "application/octet-stream", "Accept": "application/octet-stream"}
    extension = {"Content_Type": "application/octet-stream", "Inference_Header_Content_Length": str(len(head))}
    return {
        "json": post(side.path, json_of(x, wraps=side.wraps_json), Content_Type="application/json"),
        "bytes": post(side.path, x.tobytes(), **bare),
        "extension": post(side.path, head + x.tobytes(), **extension),
    }


def json_of(x: np.ndarray, *, wraps: bool) -> bytes:
    """Return a request as JSON, in the protocol's form or as an array alone."""
    if not wraps:
        return orjson.dumps({"x": x.tolist()})
    return orjson.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": x.shape, "data": x.ravel().tolist()}]})


def _checking(expected: np.ndarray, form: str) -> Callable[[bytes], None]:
    """Return what compares a reply, to the tolerance of another order of sums; the same bytes are compared once."""
    seen: set[bytes] = set()

    def check(body: bytes) -> None:
        if body in seen:
            return
        if form == "json":
            document = orjson.loads(body)
            values = document["outputs"][0]["data"] if isinstance(document, dict) else document
            found = np.array(values, np.float32).ravel()
        else:
            found = np.frombuffer(body[-expected.nbytes :], np.float32)
        np.testing.assert_allclose(found, expected.ravel(), rtol=1e-4, atol=1e-5)
        seen.add(body)

    return check


def _json_reply(expected: np.ndarray) -> bytes:
    output = {"name": "output", "datatype": "FP32", "shape": expected.shape, "data": expected.ravel().tolist()}
    return orjson.dumps({"model_name": "net", "model_version": "1", "outputs": [output]})


def _listener(port: int) -> int:
    """Return the process that listens on the port, by what it has open."""
    inode = next(
        line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
    )  # fmt: skip
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(file) == f"socket:[{inode}]" for file in (process / "fd").iterdir()):
                return int(process.name)
        except OSError:
            continue
    raise LookupError(f"nobody listens on {port}")


def _processor_s(pid: int) -> float:
    """Return the processor time of a process and of all that live below it."""
    return sum(map(_own_processor_s, _family(pid)))


def _family(pid: int) -> Iterator[int]:
    parents: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            stat = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(stat[1]), []).append(int(process.name))
    left = [pid]
    while left:
        yield (one := left.pop())
        left += parents.get(one, [])


def _own_processor_s(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(stat[11]) + int(stat[12])) / _TICKS


if __name__ == "__main__":
    main()
