"""What an answer costs: this service beside servers written by hand for the one model, in one run.

Printed are, for one and for many callers, as JSON and as bytes: requests a second, the median and the 99th percentile
in milliseconds, and the processor time of the server's processes per request in microseconds. Each reply is compared
with eager's answer. The figures of a run are to be read beside one another: machines are noisy.

    .venv/bin/python benchmarks/serving/measure.py
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
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
from benchmarks.serving import peers
from benchmarks.serving.callers import call, post

SECONDS = 3.0
WARM_S = 1.0
CALLERS = (1, 32)
TINY = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))

    def forward(self, x):
        return self.layers(x)
"""
SUBMISSION = {
    "model": "net",
    "source": {"files": {"net.py": TINY}, "entrypoint": "net:Net"},
    "example_inputs": [{"datatype": "FP32", "shape": [2, 16], "random": {"seed": 0}}],
}
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Side:
    """One server: where it listens, its processes, and the paths that it answers for JSON."""

    name: str
    address: tuple[str, int]
    pid: int
    json_path: str = "/v2/models/net/infer"
    checked: bool = True


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=SECONDS, help="of each cell")
    options.add_argument("--only", default="", help="these sides, separated by commas")
    given = options.parse_args()
    x = np.random.default_rng(0).standard_normal((1, 16)).astype(np.float32)
    with ExitStack() as stack:
        sides, expected = start(stack, x)
        print(f"{'':<22} {'callers':>7} {'form':>7} {'per s':>9} {'p50 ms':>8} {'p99 ms':>8} {'CPU µs':>8}")
        for callers in CALLERS:
            for form in ("json", "binary"):
                for side in sides:
                    if not given.only or side.name in given.only.split(","):
                        measure(side, x, expected, callers, form, given.seconds)


def start(stack: ExitStack, x: np.ndarray) -> tuple[list[Side], np.ndarray]:
    """Return the sides, all of the same archive, and eager's answer."""
    url = stack.enter_context(service())
    with httpx.Client(base_url=url, timeout=300) as client:
        traced = client.post("/trace", json=SUBMISSION, headers={"prefer": "wait=120"}).raise_for_status().json()
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
    return [
        Side("bare ASGI, no model", bare, bare_pid, checked=False),
        Side("lean FastAPI", lean, lean_pid),
        Side("tracehouse /infer", here, pid, "/infer/net"),
        Side("tracehouse /v2", here, pid),
    ], expected


def measure(side: Side, x: np.ndarray, expected: np.ndarray, callers: int, form: str, seconds: float) -> None:
    request = _requests(side, x)[form]
    check = _checking(expected, form) if side.checked else lambda _: None
    call(side.address, request, callers, WARM_S, check)
    before = _processor_s(side.pid)
    load = call(side.address, request, callers, seconds, check)
    used_us = 1e6 * (_processor_s(side.pid) - before) / len(load.seconds)
    print(
        f"{side.name:<22} {callers:>7} {form:>7} {load.per_s:>9.0f} {load.percentile_ms(0.5):>8.2f}"
        f" {load.percentile_ms(0.99):>8.2f} {used_us:>8.1f}",
        flush=True,
    )


def _requests(side: Side, x: np.ndarray) -> dict[str, bytes]:
    tensor = {"name": "x", "datatype": "FP32", "shape": x.shape}
    text = orjson.dumps({"inputs": [{**tensor, "data": x.ravel().tolist()}]})
    head = orjson.dumps(
        {
            "inputs": [{**tensor, "parameters": {"binary_data_size": x.nbytes}}],
            "parameters": {"binary_data_output": True},
        }
    )
    return {
        "json": post(side.json_path, text, Content_Type="application/json"),
        "binary": post(
            "/v2/models/net/infer", head + x.tobytes(), Inference_Header_Content_Length=str(len(head)),
            Content_Type="application/octet-stream",
        ),
    }  # fmt: skip


def _checking(expected: np.ndarray, form: str) -> Callable[[bytes], None]:
    """Return what compares a reply, to the tolerance of another order of sums; the same bytes are compared once."""
    seen: set[bytes] = set()

    def check(body: bytes) -> None:
        if body in seen:
            return
        found = np.frombuffer(body[-expected.nbytes :], np.float32)
        if form == "json":
            found = np.array(orjson.loads(body)["outputs"][0]["data"], np.float32)
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
