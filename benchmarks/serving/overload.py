"""Overload: more requests than can be answered, idle connections beside them, and runners that are killed and stopped.

Each answer is compared with eager's; whatever is neither a right answer nor a refusal with a problem is printed, and
ends the run with 1. Times and rates are those of one machine, on which the callers run too.

    .venv/bin/python benchmarks/serving/overload.py

1. Ten times the capacity is offered: `waiting` requests may wait, the next is refused with 503. Printed are what became
   of the requests, the memory of all processes before, halfway and after, and the rate of the second after it.
2. Idle connections are kept open: what each takes of memory, and the capacity and the processor time beside them.
3. Runners are killed every second; then one is stopped, which the service takes for lost after INFER_TIMEOUT_S.
"""

import argparse
import asyncio
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import orjson
import uvloop

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.service_process import service
from benchmarks.serving.callers import call, content_length, post
from benchmarks.serving.family import family, listener, memory_mib, processor_s
from benchmarks.serving.measure import json_of
from benchmarks.serving.served_models import SERVED_MODELS

MODEL = SERVED_MODELS["encoder"]
TIMES, CONNECTIONS, WAITING, INFER_TIMEOUT_S = 10, 256, 64, 5
ANSWER_S = 60
PATH = "/v2/models/net/infer"
Address = tuple[str, int]


class Offer(asyncio.Protocol):
    """A connection that sends a request at each of its times, unless the last one is not answered yet."""

    def __init__(self, request: bytes, every_s: float, until: float, tally: Counter[str], expected: np.ndarray) -> None:
        self._request, self._every_s, self._until = request, every_s, until
        self._tally, self._expected = tally, expected
        self._received = bytearray()
        self._is_asked = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        loop = asyncio.get_running_loop()
        self._next_at = loop.time() + self._every_s * float(np.random.default_rng().random())
        loop.call_at(self._next_at, self._send)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, ended, body = bytes(self._received).partition(b"\r\n\r\n")
        if not ended or len(body) < content_length(head):
            return
        self._received.clear()
        self._is_asked = False
        self._tally[self._kind(head, body)] += 1
        self._end_if_late()

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_asked:
            self._tally[f"WRONG: no answer, {error}"] += 1
        if not self.ended.done():
            self.ended.set_result(None)

    def _send(self) -> None:
        if self._end_if_late():
            return
        self._next_at += self._every_s
        asyncio.get_running_loop().call_at(self._next_at, self._send)
        if not self._is_asked:
            self._is_asked = True
            self._transport.write(self._request)

    def _end_if_late(self) -> bool:
        is_late = asyncio.get_running_loop().time() >= self._until
        if is_late and not self._is_asked:
            self._transport.close()
        return is_late

    def _kind(self, head: bytes, body: bytes) -> str:
        status = head.split()[1].decode()
        if status == "200":
            found = np.frombuffer(body[-self._expected.nbytes :], np.float32)
            is_right = np.allclose(found, self._expected.ravel(), rtol=1e-4, atol=1e-5)
            return "right" if is_right else "WRONG: another answer"
        code = orjson.loads(body)["code"]
        return f"{status} {code}" if status in ("502", "503", "504") else f"WRONG: {status} {code}"


async def offer(address: Address, request: bytes, per_s: float, seconds: float, expected: np.ndarray) -> Counter[str]:
    """Return what became of so many requests a second, as far as the connections are free to send them."""
    loop, tally = asyncio.get_running_loop(), Counter[str]()
    make = partial(Offer, request, CONNECTIONS / per_s, loop.time() + seconds, tally, expected)
    made = [await loop.create_connection(make, *address) for _ in range(CONNECTIONS)]
    _, stuck = await asyncio.wait([one.ended for _, one in made], timeout=seconds + ANSWER_S)
    if stuck:
        tally[f"WRONG: no answer within {ANSWER_S} s"] = len(stuck)
    return tally


class Service:
    """The service with the model, and what it is asked."""

    def __init__(self, url: str) -> None:
        at = urlsplit(url)
        self.address = (str(at.hostname), int(at.port or 0))
        self.pid = listener(self.address[1])
        self.expected = MODEL.answer()
        x = MODEL.question()
        tensor = {"name": MODEL.input_name, "datatype": MODEL.datatype, "shape": x.shape}
        head = orjson.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": x.nbytes}}],
                             "parameters": {"binary_data_output": True}})  # fmt: skip
        self.request = post(PATH, head + x.tobytes(), Inference_Header_Content_Length=str(len(head)))

    def capacity(self, seconds: float) -> tuple[float, float]:
        """Return the requests a second of 32 callers, and the service's processor time of each in milliseconds."""
        before = processor_s(self.pid)
        load = call(self.address, self.request, 32, seconds, lambda _: None)
        return load.per_s, 1000 * (processor_s(self.pid) - before) / len(load.seconds)

    def offer(self, per_s: float, seconds: float) -> Counter[str]:
        return uvloop.run(offer(self.address, self.request, per_s, seconds, self.expected))

    def runners(self) -> list[int]:
        """Return the processes that hold a model: those that are jailed."""
        return [pid for pid in family(self.pid) if "Seccomp:\t2" in _status(pid)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=120.0, help="of the overload")
    options.add_argument("--idle", type=int, default=10_000, help="idle connections")
    options.add_argument("--killed-s", type=float, default=30.0, help="how long runners are killed")
    given = options.parse_args()
    _raise_open_files(8 * given.idle)
    with started(given.idle) as running:
        wrong = [overload(running, given.seconds), kill(running, given.killed_s), stop(running)]
        idle(running, given.idle)
    if any(wrong):
        sys.exit("there were wrong or missing answers")


def overload(running: Service, seconds: float) -> bool:
    capacity, _ = running.capacity(5)
    memory = [memory_mib(running.pid)]
    tally = Counter[str]()
    for _ in range(2):
        tally += running.offer(TIMES * capacity, seconds / 2)
        memory.append(memory_mib(running.pid))
    after, _ = running.capacity(1)
    offered = sum(tally.values())
    print(
        f"capacity {capacity:.0f} a second; offered {offered / seconds:.0f} a second for {seconds:g} s: {dict(tally)}"
    )
    print(f"memory before, halfway and after: {', '.join(f'{one:.0f} MiB' for one in memory)}")
    print(f"in the second after it: {after:.0f} a second", flush=True)
    return _is_wrong(tally)


def kill(running: Service, seconds: float) -> bool:
    """Kill all runners each second, while half of the capacity is offered."""
    killed = 0

    async def killing() -> None:
        nonlocal killed
        while True:
            await asyncio.sleep(1)
            for pid in running.runners():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1

    async def both(per_s: float) -> Counter[str]:
        task = asyncio.create_task(killing())
        try:
            return await offer(running.address, running.request, per_s, seconds, running.expected)
        finally:
            task.cancel()

    tally = uvloop.run(both(running.capacity(2)[0] / 2))
    print(f"{killed} runners were killed in {seconds:g} s: {dict(tally)}", flush=True)
    return _is_wrong(tally)


def stop(running: Service) -> bool:
    """Stop the runner, while half of the capacity is offered."""
    _wait_until_answered(running)
    per_s = running.capacity(2)[0] / 2
    for pid in running.runners():
        os.kill(pid, signal.SIGSTOP)
    tally = running.offer(per_s, 3 * INFER_TIMEOUT_S)
    print(f"a runner was stopped: {dict(tally)} within {3 * INFER_TIMEOUT_S} s", flush=True)
    return _is_wrong(tally)


def idle(running: Service, count: int) -> None:
    _wait_until_answered(running)
    (alone, alone_ms), before = running.capacity(5), memory_mib(running.pid)
    opened, (beside, beside_ms), after = uvloop.run(_beside_idle(running, count))
    each = 1024 * (after - before) / opened
    print(f"{opened} idle connections: {each:.1f} KiB each; {alone:.0f} a second and {alone_ms:.2f} ms of the processor"
          f" for each before, {beside:.0f} and {beside_ms:.2f} beside them")  # fmt: skip


async def _beside_idle(running: Service, count: int) -> tuple[int, tuple[float, float], float]:
    asked = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    streams = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(asked)
        await reader.readuntil(b"\r\n\r\n")
        streams.append((reader, writer))
    measured = await asyncio.to_thread(_capacity_aside, running)
    memory = memory_mib(running.pid)
    opened = sum(not reader.at_eof() for reader, _ in streams)
    for _, writer in streams:
        writer.close()
    return opened, measured, memory


def _capacity_aside(running: Service) -> tuple[float, float]:
    return running.capacity(5)


@contextmanager
def started(connections: int) -> Iterator[Service]:
    settings = {
        "PRELOAD": "",
        "RUNNER_THREADS": "1",
        "RUNNER_REPLICAS": "1",
        "POOL_WAITING": str(WAITING),
        "INFER_TIMEOUT_S": str(INFER_TIMEOUT_S),
        "KEEP_ALIVE_S": "600",
        "CONNECTIONS_MAX": str(2 * connections),
        "ADDRESS_CONNECTIONS_MAX": str(2 * connections),
    }
    with (
        tempfile.TemporaryDirectory() as state,
        service(state=Path(state), **settings) as url,
        httpx.Client(base_url=url, timeout=300) as client,
    ):
        MODEL.trace(client)
        question = json_of(MODEL, MODEL.question(), wraps=True)
        client.post(PATH, content=question, headers={"content-type": "application/json"}).raise_for_status()
        yield Service(url)


def _wait_until_answered(running: Service) -> None:
    """Wait until a runner is back: what ended several in a row is held back for half a minute."""
    until = time.monotonic() + 120
    while time.monotonic() < until and running.offer(100, 1)["right"] == 0:
        time.sleep(1)


def _is_wrong(tally: Counter[str]) -> bool:
    return any(kind.startswith("WRONG") for kind in tally)


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""


def _raise_open_files(wanted: int) -> None:
    """The service has a quarter of its open files for connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, PermissionError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(hard, wanted), max(hard, wanted)))


if __name__ == "__main__":
    main()
