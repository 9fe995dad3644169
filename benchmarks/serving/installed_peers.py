"""Installed peers: servers from the package index, each in an environment of its own that install_peers.sh makes.

Each serves the same archive with a program in `installed`, which uses what the server's documentation advises for many
small requests: batches of up to 32 rows, one thread for torch, no access log.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.serving.served_models import ServedModel

PLACE = Path(os.environ.get("PEERS", Path.home() / ".cache" / "tracehouse-peers"))
_PROGRAMS = Path(__file__).parent / "installed"
_READY_S = 120.0
_PORTS = 8  # that a server may take beside its own, which follow it


@dataclass(frozen=True)
class Peer:
    """A server. `takes` are the forms that it takes: JSON, and the row's bytes alone, or within the protocol."""

    name: str
    environment: str
    kind: str = "batched"
    path: str = "/v2/models/net/infer"
    takes: tuple[str, ...] = ("json", "bytes")
    wraps_json: bool = True  # in the protocol's inputs
    program: str = ""  # the environment's, if it has no other

    @property
    def is_installed(self) -> bool:
        return (PLACE / self.environment / "bin" / "python").exists()


PEERS = [
    Peer("mosec, batched", "mosec", path="/inference"),
    Peer("mosec, 2 workers", "mosec", kind="single", path="/inference"),
    Peer("Triton, Python backend", "pytriton", takes=("json", "extension"), program="triton"),
    Peer("PyTriton", "pytriton", takes=("json", "extension")),
    Peer("TorchServe", "torchserve", path="/predictions/net"),
    Peer("MLServer", "mlserver", takes=("json",)),
    Peer("LitServe", "litserve", takes=("json",)),
    Peer("BentoML", "bentoml", takes=("json",), wraps_json=False),
    Peer("Ray Serve", "ray"),
]


@contextmanager
def start(
    peer: Peer, archive: Path, model: ServedModel, question: bytes, threads: int
) -> Iterator[tuple[tuple[str, int], int]]:
    """Start a server and yield its address and its process once it answers the JSON question."""
    port = _free_port()
    program = peer.program or peer.environment
    log = Path(f"/tmp/peer-{program}.log").open("wb")  # noqa: SIM115 - closed below
    process = subprocess.Popen(
        [PLACE / peer.environment / "bin" / "python", _PROGRAMS / f"{program}_server.py"],
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={
            **os.environ,
            **model.settings(threads),
            "ARCHIVE": str(archive),
            "PORT": str(port),
            "KIND": peer.kind,
            "OMP_NUM_THREADS": str(threads),
        },
    )
    try:
        _wait(process, f"http://127.0.0.1:{port}{peer.path}", question, log.name)
        yield ("127.0.0.1", port), process.pid
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(15)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def _wait(process: "subprocess.Popen[bytes]", url: str, question: bytes, log: str) -> None:
    until = time.monotonic() + _READY_S
    while time.monotonic() < until and process.poll() is None:
        with suppress(httpx.HTTPError):
            headers = {"content-type": "application/json"}
            if httpx.post(url, content=question, headers=headers, timeout=30).status_code == 200:
                return
        time.sleep(0.3)
    raise RuntimeError(f"it does not answer: {Path(log).read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    """Return a port after which some more are free."""
    while True:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
        try:
            for other in range(port, port + _PORTS):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", other))
        except OSError:
            continue
        return port
