"""How long a tenant waits while another one attacks the service, beside how long it waits alone, in one run.

Both have keys. The attacker does all of `ATTACKS` at once, in processes of its own, which get what processor time the
service leaves. Its models are traced on this machine too: with few processors the figures are an upper bound.
Printed are the median and the 99th percentile of the other tenant's requests in milliseconds, what came of its
requests, and the largest resident memory of the service's own process.

    .venv/bin/python benchmarks/fairness.py --seconds 120
"""

import argparse
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
from service.domain.api_key import Scope
from service.sandbox.priority import give_way, session_gives_way
from service.storage.database import Store

SECONDS = 120.0
ALONE_S = 20.0
PAUSE_S = 0.02
VICTIM_PER_MINUTE = 1_000_000  # the attacker has the default of the service
POOL_MEMORY_MIB = "1024"  # less than the attacker's runners take when they are asked
AIM = 3.0  # times what it is alone
_MEASURING_NICENESS = -10  # what measures goes before all else, as on a machine of its own
TENSOR = {"datatype": "FP32", "shape": [2, 16], "random": {"seed": 0}}
BODY = {"args": [[[0.5] * 16] * 2]}
TINY = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))

    def forward(self, x):
        return self.layers(x)
"""
LARGE = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x.sum() + torch.arange(2**21)
"""
LOOP = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        while True:
            pass
"""
GROWS = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x.sum() + torch.ones(2**27).sum()
"""
PRINTS = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        print("x" * 2**20)
        raise ValueError
"""
DEEP = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(400)))

    def forward(self, x):
        return self.layers(x)
"""


@dataclass(frozen=True)
class Caller:
    """A tenant's key, and where the service listens."""

    url: str
    token: str

    @property
    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=300, headers={"authorization": f"Bearer {self.token}"})

    def connect(self) -> socket.socket:
        url = httpx.URL(self.url)
        return socket.create_connection((url.host, url.port or 80), timeout=30)

    def trace(self, name: str, source: str, **members: object) -> httpx.Response:
        spec = {
            "model": name,
            "source": {"files": {"net.py": source}, "entrypoint": "net:Net"},
            "example_inputs": [TENSOR],
            "check": {"probes": "off"},
            "force": True,
        }
        with self.client as client:
            return client.post("/trace", json={**spec, **members}, headers={"prefer": "wait=120"})


Attack = Callable[[Caller], None]


def idle_sockets(attacker: Caller) -> None:
    """Holds connections on which nothing comes."""
    held = []
    while True:
        with suppress(OSError):
            held.append(attacker.connect())
        time.sleep(0.02)
        held = held[-400:]


def dribbled_bodies(attacker: Caller) -> None:
    """Sends a byte of a body from time to time."""
    head = f"POST /trace HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {attacker.token}\r\n"
    while True:
        held = []
        with suppress(OSError):
            for _ in range(50):
                held.append(attacker.connect())
                held[-1].sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n".encode())
        for _ in range(20):
            for one in held:
                with suppress(OSError):
                    one.sendall(b" ")
            time.sleep(0.5)


def nested_lists(attacker: Caller) -> None:
    """Submits as many numbers as a body may have."""
    body = b'{"model":"net","example_inputs":[[' + b",".join([b"1"] * 3_000_000) + b"]]}"
    while True:
        with suppress(httpx.HTTPError), attacker.client as client:
            client.post("/trace", content=body, headers={"content-type": "application/json"})


def quotes(attacker: Caller) -> None:
    """Sends headers that a slow regular expression would read for seconds."""
    while True:
        with suppress(httpx.HTTPError), attacker.client as client:
            client.get("/trace", headers={"prefer": '"' * 15_000})


def pictures(attacker: Caller) -> None:
    """Asks for pictures and goes before they come."""
    with attacker.client as client:
        digest = client.get("/models/deep").json()["versions"][0]["artifacts"]["cpu"]
    head = f"Host: localhost\r\nAuthorization: Bearer {attacker.token}\r\n\r\n"
    while True:
        with suppress(OSError), attacker.connect() as connection:
            connection.sendall(f"GET /artifacts/{digest}/graph.svg HTTP/1.1\r\n{head}".encode())
            time.sleep(0.2)


def unread_answers(attacker: Caller) -> None:
    """Asks for answers of 16 MiB and reads none."""
    body = b'{"args": [[' + b",".join([b"[" + b",".join([b"1"] * 16) + b"]"] * 2) + b"]]}"
    head = f"Host: localhost\r\nAuthorization: Bearer {attacker.token}\r\nContent-Length: {len(body)}\r\n\r\n"
    held = []
    while True:
        with suppress(OSError):
            held.append(attacker.connect())
            held[-1].sendall(f"POST /infer/large HTTP/1.1\r\n{head}".encode() + body)
        held = held[-20:]
        time.sleep(0.3)


def grown_runners(attacker: Caller) -> None:
    """Asks two models in turn whose runners grow by 512 MiB each time."""
    while True:
        for name in ("grows", "grows-too"):
            with suppress(httpx.HTTPError), attacker.client as client:
                client.post(f"/infer/{name}", json=BODY)


def refused_uploads(attacker: Caller) -> None:
    """Uploads 64 MiB again and again that no trace uses."""
    spec = {
        "model": "unused",
        "source": {"files": {"net.py": LARGE}, "entrypoint": "net:Net"},
        "example_inputs": [TENSOR],
    }
    files = [("request", (None, json.dumps(spec))), ("files", ("weights.bin", bytes(2**26)))]
    while True:
        with suppress(httpx.HTTPError), attacker.client as client:
            client.post("/trace", files=files)


def printed_failures(attacker: Caller) -> None:
    """Has traces print a megabyte each, and fail."""
    while True:
        with suppress(httpx.HTTPError):
            attacker.trace("prints", PRINTS)


def endless_loops(attacker: Caller) -> None:
    """Keeps the queue full of traces that never end."""
    while True:
        with suppress(httpx.HTTPError):
            attacker.trace("loop", LOOP)
        time.sleep(1)


ATTACKS: tuple[Attack, ...] = (
    idle_sockets, dribbled_bodies, nested_lists, quotes, pictures, unread_answers, grown_runners, refused_uploads,
    printed_failures, endless_loops,
)  # fmt: skip


@dataclass
class Seen:
    """What a kind of request took, and how it was answered."""

    seconds: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)

    def percentile_ms(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=SECONDS, help="of the attack")
    options.add_argument(
        "--attacks", nargs="+", choices=[one.__name__ for one in ATTACKS], help="only these (default: all)"
    )
    given = options.parse_args()
    attacks = [one for one in ATTACKS if given.attacks is None or one.__name__ in given.attacks]
    with tempfile.TemporaryDirectory() as state:
        attacker_key, victim_key = make_keys(Path(state))
        process = subprocess.Popen(
            [Path(sys.executable).with_name("tracehouse"), "serve", "--port", "0", "--state", state],
            env={"API_KEYS": "required", "LOG_LEVEL": "ERROR", "POOL_MEMORY_MIB": POOL_MEMORY_MIB},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # as where it is installed: Linux shares processors out between sessions first
        )
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split("ready at ")[1].split()[0]
            compare(Caller(url, attacker_key), Caller(url, victim_key), process.pid, attacks, given.seconds)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def make_keys(state: Path) -> list[str]:
    store = Store.open(f"sqlite:///{state.absolute() / 'tracehouse.db'}", (state.absolute() / "blobs").as_uri())
    tokens = [
        store.api_keys.create(name, name, [*Scope], requests_per_minute=per_minute)[1]
        for name, per_minute in (("attacker", None), ("victim", VICTIM_PER_MINUTE))
    ]
    store.close()
    return tokens


def compare(attacker: Caller, victim: Caller, pid: int, attacks: Sequence[Attack], seconds: float) -> None:
    victim.trace("net", TINY).raise_for_status()
    attacker.trace("deep", DEEP).raise_for_status()
    attacker.trace("large", LARGE).raise_for_status()
    for name in ("grows", "grows-too"):
        attacker.trace(name, GROWS).raise_for_status()
    await_threads(victim)
    running = [multiprocessing.Process(target=run_aside, args=(attack, attacker), daemon=True) for attack in attacks]
    with multiprocessing.Pool(1, initializer=run_first) as watcher:
        alone, _ = watcher.apply(watch, (victim, pid, ALONE_S))
        for one in running:
            one.start()
        try:
            attacked, resident_bytes = watcher.apply(watch, (victim, pid, seconds))
        finally:
            for one in running:
                one.kill()
    print(
        f"{'request':<12} {'alone p50':>10} {'p99':>8} {'attacked p50':>13} {'p99':>9} {'times':>7} {'aim':>5}  answers"
    )
    for name in alone:
        before, then = alone[name], attacked[name]
        times = then.percentile_ms(0.99) / before.percentile_ms(0.99)
        print(
            f"{name:<12} {before.percentile_ms(0.5):>7.1f} ms {before.percentile_ms(0.99):>5.1f} ms"
            f" {then.percentile_ms(0.5):>10.1f} ms {then.percentile_ms(0.99):>6.1f} ms {times:>7.1f} {AIM:>5.0f}"
            f"  {dict(then.answers)}"
        )
    print(f"largest resident memory of the service's own process: {resident_bytes / 2**20:.0f} MiB")


def await_threads(victim: Caller) -> None:
    """Have the threads of the model be measured, which begins once it has answered, before it is asked alone."""
    with victim.client as client:
        client.post("/infer/net", json=BODY).raise_for_status()
        while not all(
            one["measured"]
            for version in client.get("/models/net").json()["versions"]
            for one in version["threads"].values()
        ):
            time.sleep(PAUSE_S)


def run_aside(attack: Attack, attacker: Caller) -> None:
    """Run the attack with what processor time the service leaves: other machines would run it."""
    os.setsid()
    give_way(19)
    session_gives_way(19)
    attack(attacker)


def run_first() -> None:
    """Run this process, which measures, before all others, as if on a machine of its own. Only root may."""
    os.setsid()
    with suppress(PermissionError):
        give_way(_MEASURING_NICENESS)
        session_gives_way(_MEASURING_NICENESS)


def watch(victim: Caller, pid: int, seconds: float) -> tuple[dict[str, Seen], int]:
    """Ask again and again, and return what came of it and the largest resident memory in bytes."""
    seen = {"POST /infer": Seen(), "GET /trace": Seen()}
    calls = {
        "POST /infer": lambda client: client.post("/infer/net", json=BODY),
        "GET /trace": lambda client: client.get("/trace", params={"limit": 1}),
    }
    until = time.monotonic() + seconds
    resident_bytes = 0

    def ask(name: str) -> None:
        with victim.client as client:
            while time.monotonic() < until:
                began = time.perf_counter()
                try:
                    seen[name].answers[str(calls[name](client).status_code)] += 1
                except httpx.HTTPError as error:
                    seen[name].answers[type(error).__name__] += 1
                seen[name].seconds.append(time.perf_counter() - began)
                time.sleep(PAUSE_S)

    threads = [threading.Thread(target=ask, args=(name,)) for name in calls]
    for one in threads:
        one.start()
    while any(one.is_alive() for one in threads):
        resident_bytes = max(resident_bytes, psutil.Process(pid).memory_info().rss)
        time.sleep(0.2)
    return seen, resident_bytes


if __name__ == "__main__":
    main()
