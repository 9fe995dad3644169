"""What the engine itself costs: from a submission to its start, small requests per second, and a turn in a long queue.

The requests do nothing: what is measured is the way through the tables, and no model. On SQLite the engine is the
embedded one, on PostgreSQL the distributed one, with workers in processes of their own. `--postgres` is the URL of a
PostgreSQL, in which a schema is made and dropped again; without it, there is the embedded one alone.

Printed are the median and the 90th percentile of the time from a submission to its start, in milliseconds; requests per
second with 1, 2 and 4 workers, and the processor time of all of them for each; and the median time of a turn, from the
look at the queue to the claim, beside how many wait. `--plot` draws the last as an SVG.

    .venv/bin/python benchmarks/engine.py --postgres postgresql://postgres@localhost/postgres --plot docs/engine.svg
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from math import log10
from multiprocessing.synchronize import Event as ProcessEvent
from pathlib import Path
from queue import SimpleQueue
from statistics import median, quantiles

import psutil
from sqlalchemy import insert

sys.path.insert(0, str(Path(__file__).parents[1]))
from migrations.check import empty_schema
from service.domain.outcome import NotTraced
from service.domain.trace_request import TraceRequest
from service.engine.distributed import DistributedEngine
from service.engine.embedded import EmbeddedEngine
from service.engine.fair_queue import FairQueue
from service.sandbox.cancellation import Cancellation
from service.storage import tables
from service.storage.database import Store
from tracehouse.errors import Failure
from tracehouse.spec.trace_spec import TraceSpec

STARTS = 200
TURNS = 200
SMALL = 400
WORKERS = (1, 2, 4)
QUEUED = (10, 100, 1000, 10_000)
TENANTS = 20
SOURCE = {"files": {"net.py": ""}, "entrypoint": "net:Net"}
SPEC = TraceSpec.model_validate({"model": "net", "source": SOURCE, "example_inputs": [1.0], "force": True})
NOTHING = Failure(slug="model-raised", detail="nothing was traced")
# Of these, the aims: milliseconds from a submission to its start.
AIMS = {"embedded": 30.0, "PostgreSQL": 50.0}


def new_request(tenant: str = "default") -> TraceRequest:
    return TraceRequest.new(SPEC, {}, torch_version="2", tenant=tenant)


class Work:
    """Ends each request at once, and tells whom it has begun."""

    def __init__(self, store: Store) -> None:
        self._requests = store.trace_requests
        self.begun: SimpleQueue[float] = SimpleQueue()

    def run(self, request_id: str, _: Cancellation) -> None:
        claimed = self._requests.claim(request_id)
        if claimed is not None:
            self.begun.put(time.perf_counter())
            self._requests.finish(request_id, claimed.attempt, NotTraced(failure=NOTHING))


@contextmanager
def open_store(url: str, directory: Path) -> Iterator[Store]:
    store = Store.open(url, (directory / "blobs").as_uri())
    try:
        yield store
    finally:
        store.close()


# ── from a submission to its start


def starts_embedded(directory: Path) -> list[float]:
    with open_store(f"sqlite:///{directory / 'tracehouse.db'}", directory) as store:
        work = Work(store)
        engine = EmbeddedEngine(store, work.run, {"cpu": 1, "gpu": 0}, queue_max=10**6, attempts=3)
        engine.start()
        waits = []
        for _ in range(STARTS):
            began = time.perf_counter()
            engine.submit(new_request())
            waits.append((work.begun.get() - began) * 1000)
            time.sleep(0.02)  # until the slot waits again, as on an idle service
        engine.stop()
        return waits


def starts_distributed(url: str, directory: Path) -> list[float]:
    with open_store(url, directory) as store, workers(url, directory, 1):
        api = DistributedEngine(store, lambda *_: None, {"cpu": 0, "gpu": 0}, queue_max=10**6, attempts=3)
        api.start()
        waits = []
        for _ in range(STARTS):
            request, began = new_request(), time.time()
            api.submit(request)
            while (status := store.trace_requests.status_of_any_tenant(request.id)).started_at is None:
                time.sleep(0.001)
            waits.append((status.started_at.timestamp() - began) * 1000)
            time.sleep(0.02)
        api.stop()
        return waits


# ── workers


@contextmanager
def workers(url: str, directory: Path, count: int) -> Iterator[Callable[[], float]]:
    """Workers in processes of their own, of one slot each. Yields what gives the processor time of all since then."""
    spawning = multiprocessing.get_context("spawn")
    stop, ready = spawning.Event(), [spawning.Event() for _ in range(count)]
    processes = [spawning.Process(target=work_until, args=(url, directory, one, stop)) for one in ready]
    for process in processes:
        process.start()
    for one in ready:
        assert one.wait(120)

    def cpu_s() -> float:
        times = (psutil.Process(process.pid).cpu_times() for process in processes)
        return sum(one.user + one.system for one in times)

    before = cpu_s()
    try:
        yield lambda: cpu_s() - before
    finally:
        stop.set()
        for process in processes:
            process.join()


def work_until(url: str, directory: Path, ready: ProcessEvent, stop: ProcessEvent) -> None:
    with open_store(url, directory) as store:
        work = Work(store)
        engine = DistributedEngine(
            store, work.run, {"cpu": 1, "gpu": 0}, queue_max=10**6, attempts=3, tells_positions=False
        )
        engine.start()
        ready.set()
        stop.wait()
        engine.stop()


def throughput(url: str, directory: Path, count: int) -> tuple[float, float]:
    """Requests per second, and the milliseconds of processor time of the workers for each."""
    with open_store(url, directory) as store, workers(url, directory, count) as cpu_s:
        fill(store, SMALL)
        api = DistributedEngine(store, lambda *_: None, {"cpu": 0, "gpu": 0}, queue_max=10**6, attempts=3)
        began = time.perf_counter()
        api.start()
        api.submit(new_request())  # which wakes them
        while queue_length(store):
            time.sleep(0.02)
        seconds, spent_s = time.perf_counter() - began, cpu_s()
        api.stop()
    return SMALL / seconds, spent_s / SMALL * 1000


def queue_length(store: Store) -> int:
    queue = store.figures.read().queues.get("cpu")
    return 0 if queue is None else queue.waiting + queue.running


# ── a turn in a long queue

Turn = Callable[[], float]


def measure_turns(turns: Mapping[int, Turn]) -> dict[int, float]:
    """The median milliseconds of a turn by how many wait. They take turns, so that what else runs slows all of them."""
    measured = [{queued: turn() for queued, turn in turns.items()} for _ in range(TURNS)]
    return {queued: median(one[queued] for one in measured) for queued in turns}


def turns_distributed(url: str, directory: Path) -> dict[int, float]:
    with ExitStack() as opened:
        turns = {}
        for queued in QUEUED:
            store = opened.enter_context(open_store(opened.enter_context(empty_schema(url)), directory / str(queued)))
            store.worker_turns.note_alive("worker", {"cpu": 1})
            fill(store, queued)
            turns[queued] = partial(turn_distributed, store)
        return measure_turns(turns)


def turn_distributed(store: Store) -> float:
    began = time.perf_counter()
    with store.worker_turns.open_pool("cpu", "worker") as pool:
        oldest = min(pool.state.waiting, key=lambda one: (one.created_at, one.request_id))
        pool.begin(oldest.tenant, oldest.request_id)
    claimed = store.trace_requests.claim(oldest.request_id)
    took = time.perf_counter() - began
    assert claimed is not None
    store.trace_requests.finish(oldest.request_id, claimed.attempt, NotTraced(failure=NOTHING))
    store.worker_turns.end(oldest.request_id, "worker", 3)
    store.trace_requests.add(new_request(oldest.tenant))
    return took * 1000


def turns_embedded(directory: Path) -> dict[int, float]:
    with ExitStack() as opened:
        turns = {}
        for queued in QUEUED:
            own = directory / str(queued)
            store = opened.enter_context(open_store(f"sqlite:///{own / 'tracehouse.db'}", own))
            fill(store, queued)
            queue = FairQueue(1)
            for waiting in store.trace_requests.recover(3):
                queue.put(waiting)
            turns[queued] = partial(turn_embedded, store, queue)
        return measure_turns(turns)


def turn_embedded(store: Store, queue: FairQueue) -> float:
    began = time.perf_counter()
    turn = queue.take()
    assert turn is not None
    claimed = store.trace_requests.claim(turn.request_id)
    took = time.perf_counter() - began
    assert claimed is not None
    store.trace_requests.finish(turn.request_id, claimed.attempt, NotTraced(failure=NOTHING))
    queue.done(turn)
    queue.put(store.trace_requests.add(new_request(turn.tenant)))
    return took * 1000


def fill(store: Store, count: int) -> None:
    """Let so many more wait, of several tenants: copies of one, because to submit each would take minutes."""
    first, *rest = [new_request(f"tenant-{number % TENANTS}") for number in range(count)]
    store.trace_requests.add(first)
    keys = {tables.trace_requests: "id", tables.submissions: "request_id", tables.sources: "request_id"}
    with store._transactions.write() as connection:
        for table, key in keys.items():
            row = connection.execute(table.select().where(table.c[key] == first.id)).one()
            its_own = {"tenant", "created_at"} & {*table.c.keys()}
            copies = [{**row._mapping, key: one.id, **{name: getattr(one, name) for name in its_own}} for one in rest]
            connection.execute(insert(table), copies)


# ── what is told of it


def plot(turns: Mapping[str, Mapping[int, float]]) -> str:
    """The milliseconds of a turn over the length of the queue, both logarithmic, as an SVG."""
    width, height, left, bottom = 640, 320, 60, 40
    most = max(max(of.values()) for of in turns.values())
    top = 10 ** (int(log10(most)) + 1)
    least = top / 1000

    def place(queued: float, ms: float) -> tuple[float, float]:
        x = left + (log10(queued) - 1) / 3 * (width - left - 110)
        y = 10 + (1 - (log10(max(ms, least)) - log10(least)) / 3) * (height - bottom - 10)
        return round(x, 1), round(y, 1)

    right = width - 110
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"',
        ' font-size="12"><rect width="100%" height="100%" fill="white"/>',
    ]
    for ms in (least, least * 10, least * 100, top):
        x, y = place(10, ms)
        parts.append(f'<path d="M{x} {y}H{right}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{ms:g} ms</text>')
    for queued in QUEUED:
        x, y = place(queued, least)
        parts.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle">{queued:,}</text>')
    middle = (left + right) / 2
    parts.append(f'<text x="{middle}" y="{height - 4}" text-anchor="middle">trace requests that wait</text>')
    for (name, of), colour in zip(turns.items(), ("#1f6feb", "#b35900"), strict=False):
        points = [place(queued, ms) for queued, ms in of.items()]
        line = " ".join(f"{x},{y}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in points]
        parts.append(f'<text x="{points[-1][0] + 8}" y="{points[-1][1] + 4}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def print_starts(name: str, waits: Sequence[float]) -> None:
    print(
        f"submission to start, {name}: median {median(waits):.1f} ms of {len(waits)}, 90 % within "
        f"{quantiles(waits, n=10)[-1]:.1f} ms (aim: a median under {AIMS[name]:.0f} ms)",
        flush=True,
    )


def print_turns(name: str, turns: Mapping[int, float]) -> None:
    each = ", ".join(f"{queued:,}: {ms:.2f} ms" for queued, ms in turns.items())
    print(f"a turn, {name}, by how many wait: {each}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", help="URL of a PostgreSQL")
    parser.add_argument("--plot", type=Path, help="where to draw the turns, as an SVG")
    options = parser.parse_args()
    turns = {}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        print_starts("embedded", starts_embedded(Path(one)))
        turns["embedded"] = turns_embedded(Path(other))
        print_turns("embedded", turns["embedded"])
    if options.postgres is not None:
        url = options.postgres.replace("postgresql:", "postgresql+psycopg:")
        with empty_schema(url) as schema, tempfile.TemporaryDirectory() as directory:
            print_starts("PostgreSQL", starts_distributed(schema, Path(directory)))
        for count in WORKERS:
            with empty_schema(url) as schema, tempfile.TemporaryDirectory() as directory:
                per_second, cpu_ms = throughput(schema, Path(directory), count)
                told = f"{per_second:.0f} requests/s, {cpu_ms:.1f} ms of their processor time each"
                print(f"workers {count}: {told}", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            turns["PostgreSQL"] = turns_distributed(url, Path(directory))
            print_turns("PostgreSQL", turns["PostgreSQL"])
    if options.plot is not None:
        options.plot.write_text(plot(turns))


if __name__ == "__main__":
    main()
