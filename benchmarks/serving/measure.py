"""What an answer costs: this service beside servers that serve the same archive of one model, in one run.

The models are a tiny MLP, a wide one, a ResNet-18 and an encoder of 4 layers (`benchmarks/models`), their inputs one
row each, as JSON and as bytes. Keys are on, and the forms of a model are raced.

Printed are requests a second, the median and the 99th percentile in milliseconds, the processor time of the server's
processes per request in microseconds, and their memory, in which a page that several have counts for each in part.
Each reply is compared with eager's answer. The figures of a run are to be read beside one another: machines are noisy.

    .venv/bin/python benchmarks/serving/measure.py --cells cells.json --plot docs/serving.svg

Servers from the package index are measured too, if `benchmarks/serving/install_peers.sh` has installed them. Each of
them is started and ended alone, and what is written by hand is measured before and after all of them.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import orjson

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.service_process import service
from benchmarks.serving import installed_peers, peers
from benchmarks.serving.callers import call, post
from benchmarks.serving.cells import HEAD, Cell, Cells, plot, tables
from benchmarks.serving.family import listener, memory_mib, processor_s
from benchmarks.serving.in_process import call_in_process
from benchmarks.serving.served_models import SERVED_MODELS, ServedModel
from service.domain.api_key import REQUESTS_PER_MINUTE_MAX

SECONDS = 2.0
WARM_S = 0.5
# Of torch, in each process that has the model. Where others use the processors too, two threads wait for one another:
# then an encoder's answer takes ten times as long as with one.
THREADS = 1
RACE_S = 600
OURS, UNCHECKED = "tracehouse", "tracehouse, unchecked"
BARE, PROTOCOL, NAIVE, LEAN = "bare ASGI", "bare protocol class", "naive FastAPI", "lean FastAPI"
IN_PROCESS, RACED = "in process", "in process, raced form"
PLOTTED = [OURS, LEAN, "mosec, batched", "mosec, 2 workers", "Triton, Python backend", BARE, PROTOCOL, IN_PROCESS,
           RACED]  # fmt: skip


@dataclass(frozen=True)
class Side:
    """One server: where it listens, its process, its path, and the forms that it answers."""

    name: str
    address: tuple[str, int]
    pid: int
    path: str = "/v2/models/net/infer"
    checked: bool = True
    takes: tuple[str, ...] = ("json", "extension")
    wraps_json: bool = True
    key: str | None = None


@dataclass(frozen=True)
class Started:
    """This service, with the model: its key, its archive, and the form that has won the race, if one has."""

    address: tuple[str, int]
    key: str
    archive: bytes
    form: str | None


class Measurement:
    """All sides of one model. `wants` says which are measured."""

    def __init__(
        self, name: str, callers: Sequence[int], seconds: float, wants: Callable[[str], bool], cells: Cells
    ) -> None:
        self._name = name
        self._model = SERVED_MODELS[name]
        self._callers = callers
        self._seconds = seconds
        self._wants = wants
        self._cells = cells
        self._x = self._model.question()
        self._expected = self._model.answer()

    def run(self) -> None:
        with ExitStack() as stack, tempfile.TemporaryDirectory() as directory:
            started = stack.enter_context(serve(self._model))
            archive, question = Path(directory) / "net.pt", Path(directory) / "question.npy"
            archive.write_bytes(started.archive)
            np.save(question, self._x)
            print(f"\n{self._name}: {self._model.entrypoint}, this service answers in the form "
                  f"{started.form or 'as saved'}\n{HEAD}", flush=True)  # fmt: skip
            self._call_in_process(IN_PROCESS, archive, None, question)
            if started.form is not None:
                self._call_in_process(RACED, archive, started.form, question)
            sides = [*self._own_sides(stack, started), *self._written_by_hand(stack, archive)]
            self._measure_all(sides)
            for peer in installed_peers.PEERS:
                if self._wants(peer.name):
                    self._measure_installed(peer, archive)
            self._measure_all(sides)

    def _call_in_process(self, name: str, archive: Path, form: str | None, question: Path) -> None:
        if not self._wants(name):
            return
        each_s, wall_s, used_s, answer = call_in_process(archive, form, question, THREADS, self._seconds)
        np.testing.assert_allclose(np.array(answer, np.float32), self._expected.ravel(), **_tolerance(self._expected))
        p50, p99 = (1000 * float(np.percentile(each_s, part)) for part in (50, 99))
        calls = len(each_s)
        self._cells.add(Cell(self._name, name, 1, "bytes", calls / wall_s, p50, p99, 1e6 * used_s / calls, 0.0))

    def _own_sides(self, stack: ExitStack, started: Started) -> Iterator[Side]:
        pid = listener(started.address[1])
        if self._wants(OURS):
            yield Side(OURS, started.address, pid, key=started.key)
        if self._wants(UNCHECKED):
            other = stack.enter_context(serve(self._model, sys.executable, Path(__file__).with_name("unchecked.py")))
            yield Side(UNCHECKED, other.address, listener(other.address[1]), key=other.key)

    def _written_by_hand(self, stack: ExitStack, archive: Path) -> Iterator[Side]:
        settings = self._model.settings(THREADS)
        replies = {"/json": _json_reply(self._expected), "/extension": self._expected.tobytes()}
        for name, program in ((BARE, peers.BARE), (PROTOCOL, peers.PROTOCOL)):
            if self._wants(name):
                address, pid = stack.enter_context(peers.start(peers.fixed(program, replies)))
                yield Side(name, address, pid, "/{form}", checked=False)
        for name, program, takes in (
            (NAIVE, peers.NAIVE, ("json",)),
            (LEAN, peers.LEAN, ("json", "extension")),
        ):
            if self._wants(name):
                address, pid = stack.enter_context(peers.start(program, str(archive), **settings))
                yield Side(name, address, pid, takes=takes)

    def _measure_installed(self, peer: installed_peers.Peer, archive: Path) -> None:
        if not peer.is_installed:
            print(f"{peer.name:<24} is not installed")
            return
        question = json_of(self._model, self._x, wraps=peer.wraps_json)
        try:
            with installed_peers.start(peer, archive, self._model, question, THREADS) as (address, pid):
                side = Side(peer.name, address, pid, peer.path, takes=peer.takes, wraps_json=peer.wraps_json)
                self._measure_all([side])
        except (RuntimeError, OSError) as error:
            print(f"{peer.name:<24} failed: {str(error)[-300:]}")

    def _measure_all(self, sides: Sequence[Side]) -> None:
        for count in self._callers:
            for side in sides:
                for form in side.takes:
                    self._measure(side, count, form)

    def _measure(self, side: Side, callers: int, form: str) -> None:
        request = self._requests(side)[form]
        check = _checking(self._expected, form) if side.checked else lambda _: None
        call(side.address, request, callers, WARM_S, check)
        before = processor_s(side.pid)
        load = call(side.address, request, callers, self._seconds, check)
        used_us = 1e6 * (processor_s(side.pid) - before) / len(load.seconds)
        p50, p99 = load.percentile_ms(0.5), load.percentile_ms(0.99)
        shown = "json" if form == "json" else "bytes"
        self._cells.add(
            Cell(self._name, side.name, callers, shown, load.per_s, p50, p99, used_us, memory_mib(side.pid))
        )

    def _requests(self, side: Side) -> dict[str, bytes]:
        x, path = self._x, side.path.format
        tensor = {**_spec(self._model, x), "parameters": {"binary_data_size": x.nbytes}}
        head = orjson.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}})
        key = {} if side.key is None else {"Authorization": f"Bearer {side.key}"}
        is_bytes = {**key, "Content_Type": "application/octet-stream"}
        length = {"Inference_Header_Content_Length": str(len(head))}
        given = json_of(self._model, x, wraps=side.wraps_json)
        return {
            "json": post(path(form="json"), given, Content_Type="application/json", **key),
            "bytes": post(path(form="bytes"), x.tobytes(), Accept="application/octet-stream", **is_bytes),
            "extension": post(path(form="extension"), head + x.tobytes(), **is_bytes, **length),
        }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", default=",".join(SERVED_MODELS), help="these models, separated by commas")
    options.add_argument("--seconds", type=float, default=SECONDS, help="of each cell")
    options.add_argument("--only", default="", help="these sides, separated by semicolons")
    options.add_argument("--callers", default="1,8,32,128", help="numbers of callers, separated by commas")
    options.add_argument("--cells", type=Path, help="a file that keeps the figures; those of other sides stay")
    options.add_argument("--plot", type=Path, help="where to draw the processor time of a request, as an SVG")
    given = options.parse_args()
    callers = [int(one) for one in given.callers.split(",")]
    cells = Cells(given.cells)
    for name in given.model.split(",") if given.model else ():
        Measurement(
            name, callers, given.seconds, lambda side: not given.only or side in given.only.split(";"), cells
        ).run()
    print(*tables(cells), sep="\n")
    if given.plot is not None:
        given.plot.write_text(plot(cells, PLOTTED))


@contextmanager
def serve(model: ServedModel, *command: str | Path) -> Iterator[Started]:
    """This service, once it has traced the model and raced its forms."""
    with tempfile.TemporaryDirectory() as state:
        create = ["keys", "create", "callers", "--requests-per-minute", str(REQUESTS_PER_MINUTE_MAX), "--state", state]
        tracehouse = Path(sys.executable).with_name("tracehouse")
        key = subprocess.run([tracehouse, *create], check=True, capture_output=True, text=True).stdout.strip()
        settings = {
            "PRELOAD": "",
            "API_KEYS": "required",
            "SERVED_FORMS": "raced",
            "RUNNER_THREADS": str(THREADS),
            "RUNNER_REPLICAS": "1",
        }
        with (
            service(*(command or [tracehouse]), state=Path(state), **settings) as url,
            httpx.Client(base_url=url, timeout=300, headers={"authorization": f"Bearer {key}"}) as client,
        ):
            model.trace(client)
            digest = client.get("/models/net").json()["versions"][0]["artifacts"]["cpu"]
            archive = client.get(f"/artifacts/{digest}/archive").raise_for_status().content
            form = _wait_for_race(client, json_of(model, model.question(), wraps=True), digest)
            at = urlsplit(url)
            assert at.hostname is not None
            assert at.port is not None
            yield Started((at.hostname, at.port), key, archive, form)


def _wait_for_race(client: httpx.Client, question: bytes, digest: str) -> str | None:
    """Return the form that has won, and answers now."""
    until = time.monotonic() + RACE_S
    while time.monotonic() < until:
        client.post("/infer/net", content=question, headers={"content-type": "application/json"}).raise_for_status()
        raced: dict[str, Any] | None = client.get("/models/net").json()["versions"][0]["forms"].get(digest)
        if raced is not None:
            print("race of forms:", orjson.dumps(raced).decode()[:1500])
            time.sleep(10 if raced["answers"] else 0)  # the runner in the new form loads, and takes over
            return raced["answers"]
        time.sleep(1)
    raise TimeoutError(f"the forms were not raced within {RACE_S} s")


def json_of(model: ServedModel, x: np.ndarray, *, wraps: bool) -> bytes:
    """Return a request as JSON, in the protocol's form or as an array alone."""
    if not wraps:
        return orjson.dumps({"x": x.tolist()})
    return orjson.dumps({"inputs": [{**_spec(model, x), "data": x.ravel().tolist()}]})


def _spec(model: ServedModel, x: np.ndarray) -> dict[str, object]:
    return {"name": model.input_name, "datatype": model.datatype, "shape": x.shape}


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
        np.testing.assert_allclose(found, expected.ravel(), **_tolerance(expected))
        seen.add(body)

    return check


def _tolerance(expected: np.ndarray) -> dict[str, float]:
    return {"rtol": 1e-4, "atol": 1e-5 * max(1.0, float(np.abs(expected).max()))}


def _json_reply(expected: np.ndarray) -> bytes:
    output = {"name": "output", "datatype": "FP32", "shape": expected.shape, "data": expected.ravel().tolist()}
    return orjson.dumps({"model_name": "net", "model_version": "1", "outputs": [output]})


if __name__ == "__main__":
    main()
