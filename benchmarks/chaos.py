"""What is left of trace requests while processes are killed and stopped, and PostgreSQL is restarted, at random.

Two processes that answer HTTP and three workers share a PostgreSQL of their own, which needs root. Requests are sent
until they are acknowledged. Meanwhile a process is killed and started again, or stopped and resumed, after which a
worker may be one that counted as lost; PostgreSQL is restarted, killed, or frozen. At the end, every acknowledged
request must have succeeded once, with one version of its model, as it was when it was first seen to have ended.

Printed are how many requests there were, what was done, how many attempts were begun anew, and the longest time from a
death to the next attempt: counted from when the database was there again, if it was away in between.

    .venv/bin/python benchmarks/chaos.py --requests 300 --seed 1
"""

import argparse
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Self

import httpx
import psutil
import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.acceptance.conftest import ANSWER_S, start_process
from tests.postgres_server import PostgresServer, why_there_is_none

APIS, WORKERS = 2, 3
THERE_MIN = 2  # of all of them
RERUN_S = 30.0
# A worker counts as lost after 15 s.
STOPPED_S = (2.0, 25.0)
FROZEN_S = (1.0, 12.0)
PAUSE_S = (1.0, 8.0)
SOURCE = """
import time
import torch
time.sleep({seconds})
net = torch.nn.Linear(2, 3)
"""
ENDED = ("succeeded", "failed", "cancelled")


class Member:
    """One process of the service, with its children."""

    def __init__(self, name: str, command: Sequence[str | Path], environment: dict[str, str], log: Path) -> None:
        self.name = name
        self._command = command
        self._environment = os.environ | environment
        self._log = log
        self._process = self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def start(self) -> None:
        """Start it until it stays, as a supervisor does: it ends if the database is away."""
        while True:
            with suppress(AssertionError):
                self._process = self._start()
                return
            time.sleep(1)

    def stop(self) -> None:
        """Stop it with its children, as a host that is suspended."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def end(self) -> int:
        """End it as an operator does, and return its exit status."""
        self.go_on()
        self._process.terminate()
        return self._process.wait(ANSWER_S)

    def _start(self) -> Any:
        ready = "ready at " if self._command[0] == "serve" else "worker is ready"
        return start_process(self._command, self._environment, self._log, ready)[0]

    def _signal(self, number: signal.Signals) -> None:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            for one in (process, *process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    one.send_signal(number)


@dataclass(frozen=True)
class Death:
    """A worker was killed or stopped at this time, and ran this attempt of a request."""

    at: float
    request_id: str
    attempt: int


@dataclass
class Cluster:
    """The processes, and what was done to them."""

    server: PostgresServer
    apis: list[Member]
    addresses: list[str]
    workers: list[Member]
    done: Counter[str] = field(default_factory=Counter)
    deaths: list[Death] = field(default_factory=list)
    away_until: list[float] = field(default_factory=list)

    @classmethod
    @contextmanager
    def open(cls, directory: Path, **settings: str) -> Iterator[Self]:
        with PostgresServer() as server, ThreadPoolExecutor() as threads:
            environment = {
                "DATABASE_URL": server.url,
                "BLOB_URL": (directory / "files").as_uri(),
                "TRACE_ATTEMPTS": "100",  # these are no poison: what kills them is this program
                **settings,
            }
            ports = [_free_port() for _ in range(APIS)]

            def start_api(number: int) -> Member:
                state = directory / f"api-{number}"
                state.mkdir()
                command = ["serve", "--role", "api", "--port", str(ports[number]), "--state", state]
                return Member(f"api {number}", command, environment, directory / f"api-{number}.log")

            def start_worker(number: int) -> Member:
                command = ["worker", "--pool", "cpu", "--slots", "1", "--state", directory / "api-0"]
                return Member(f"worker {number}", command, environment, directory / f"worker-{number}.log")

            first = start_api(0)  # it makes the tables, and the key that workers sign with
            others = threads.map(start_api, range(1, APIS))
            workers = [*threads.map(start_worker, range(WORKERS))]
            addresses = [f"http://127.0.0.1:{port}" for port in ports]
            cluster = cls(server, [first, *others], addresses, workers)
            try:
                yield cluster
            finally:
                server.go_on()
                [*threads.map(Member.end, [*cluster.apis, *cluster.workers])]

    # ── what is asked

    def submit(self, number: int, seconds: float) -> str:
        """Send the request until it is acknowledged, by whichever process, and return its id."""
        text = SOURCE.format(seconds=seconds)
        body = {
            "model": f"model-{number}",
            "source": {"files": {"net.py": text}, "entrypoint": "net:net"},
            "example_inputs": [{"datatype": "FP32", "shape": [1, 2], "random": {"seed": number}}],
            "check": {"probes": "off"},
        }
        for attempt in count():
            address = self.addresses[(number + attempt) % len(self.addresses)]
            with suppress(httpx.HTTPError):
                answer = httpx.post(
                    f"{address}/trace", json=body, headers={"idempotency-key": f"n{number}"}, timeout=60
                )
                if answer.status_code in (200, 202):
                    return str(answer.json()["id"])
                assert answer.status_code == 503, answer.text
            time.sleep(0.2)
        raise AssertionError

    def query(self, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Ask the database itself, as long as it does not answer."""
        while True:
            try:
                with psycopg.connect(self.server.url, connect_timeout=5) as connection:
                    return connection.execute(statement, arguments).fetchall()
            except psycopg.OperationalError:
                time.sleep(0.1)

    def runs(self, worker: Member) -> list[tuple[str, int]]:
        """The requests that the worker runs, and the attempts."""
        return self.query(
            "SELECT r.id, r.attempt FROM procrastinate_jobs j JOIN workers w ON w.number = j.worker_id "
            "JOIN trace_requests r ON r.id = j.lock WHERE w.id LIKE %s AND j.status = 'doing' AND r.state = 'running'",
            f"% {worker.pid} %",
        )  # type: ignore[return-value]

    # ── what is done to it

    def kill(self, member: Member) -> None:
        self._note_death(member)
        member.kill()
        self.done["killed"] += 1

    def stop(self, member: Member) -> None:
        self._note_death(member)
        member.stop()
        self.done["stopped"] += 1

    def restart_database(self) -> None:
        self.server.restart()
        self._note_outage("database restarted")

    def kill_database(self) -> None:
        self.server.kill()
        self.server.start()
        self._note_outage("database killed")

    def freeze_database(self, seconds: float) -> None:
        self.server.freeze()
        time.sleep(seconds)
        self.server.go_on()
        self._note_outage("database frozen")

    def _note_death(self, member: Member) -> None:
        self.deaths += [Death(time.time(), *run) for run in self.runs(member)]

    def _note_outage(self, what: str) -> None:
        self.away_until.append(time.time())
        self.done[what] += 1


class Follower(threading.Thread):
    """Sees how requests end, and whether one changes after that."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._done = threading.Event()
        self.ended: dict[str, tuple[Any, ...]] = {}
        self.changed: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = []

    def run(self) -> None:
        while not self._done.wait(0.5):
            self.look()

    def look(self) -> None:
        for row in self._cluster.query(
            "SELECT id, state, attempt, ended_at, artifacts, model_version, events FROM trace_requests "
            "WHERE ended_at IS NOT NULL"
        ):
            if (before := self.ended.setdefault(row[0], row)) != row:
                self.changed.append((before, row))

    def finish(self, requests: Sequence[str]) -> None:
        """Wait until all of them have ended."""
        while set(requests) - self.ended.keys():
            time.sleep(0.5)
        self._done.set()
        self.join()
        self.look()


@dataclass(frozen=True)
class Outcome:
    """What came of the acknowledged requests."""

    requests: int
    reruns: int
    wrong: list[str]
    rerun_s: list[float]  # from a death to the next attempt


def judge(cluster: Cluster, acknowledged: Sequence[str], follower: Follower) -> Outcome:
    """Say what is wrong with how the requests ended."""
    wrong = [f"changed after its end: {before} became {after}" for before, after in follower.changed]
    states = dict(cluster.query("SELECT id, state FROM trace_requests"))
    if states.keys() != set(acknowledged):
        wrong.append(f"{len(states)} requests are stored, and {len(set(acknowledged))} were acknowledged")
    wrong += [f"{one} ended {states[one]}" for one in states if states[one] != "succeeded"]
    ends = Counter(one for (one,) in cluster.query("SELECT request_id FROM events WHERE kind = 'end'"))
    wrong += [f"{one} has {ends[one]} ends" for one in states if ends[one] != 1]
    versions = Counter(one for (one,) in cluster.query("SELECT trace_request FROM model_versions"))
    wrong += [f"{one} has {versions[one]} versions" for one in states if versions[one] != 1]
    left = cluster.query("SELECT lock, status FROM procrastinate_jobs")
    wrong += [f"{one} has a job that is {status}, though it has ended" for one, status in left]
    [(attempts,)] = cluster.query("SELECT sum(attempt) FROM trace_requests")
    return Outcome(len(states), int(attempts) - len(states), wrong, [*_rerun_times(cluster)])


def _rerun_times(cluster: Cluster) -> Iterator[float]:
    """Of those that were begun anew, as the events of the next attempt say, by the clock of this machine."""
    for death in cluster.deaths:
        [(begun,)] = cluster.query(
            "SELECT extract(epoch FROM min(created_at)) FROM events WHERE request_id = %s AND attempt > %s",
            death.request_id,
            death.attempt,
        )
        if begun is not None:
            outages = [until for until in cluster.away_until if death.at < until < float(begun)]
            yield float(begun) - max([death.at, *outages])


class _Disturber:
    """Does something to some process again and again. What takes a while is done beside."""

    def __init__(self, cluster: Cluster, random: Random, threads: ThreadPoolExecutor) -> None:
        self._cluster = cluster
        self._random = random
        self._threads = threads
        self._away: set[str] = set()
        self._is_over = threading.Event()
        self._coming: list[Future[None]] = []

    def disturb(self, is_over: Callable[[], bool]) -> None:
        actions = (self._kill, self._stop, self._restart_database, self._kill_database, self._freeze_database)
        while not is_over():
            [action] = self._random.choices(actions, (8, 5, 1, 1, 1))
            action()
            time.sleep(self._random.uniform(*PAUSE_S))
        self._is_over.set()
        for one in self._coming:
            one.result()

    def _kill(self) -> None:
        if (member := self._choose()) is not None:
            self._cluster.kill(member)
            self._bring_back(member, member.start)

    def _stop(self) -> None:
        if (member := self._choose()) is not None:
            self._cluster.stop(member)
            seconds = self._random.uniform(*STOPPED_S)

            def go_on() -> None:
                self._is_over.wait(seconds)
                member.go_on()

            self._bring_back(member, go_on)

    def _restart_database(self) -> None:
        self._cluster.restart_database()

    def _kill_database(self) -> None:
        self._cluster.kill_database()

    def _freeze_database(self) -> None:
        self._cluster.freeze_database(self._random.uniform(*FROZEN_S))

    def _choose(self) -> Member | None:
        """Return one that is there, unless too few are."""
        there = [one for one in (*self._cluster.apis, *self._cluster.workers) if one.name not in self._away]
        return self._random.choice(there) if len(there) > THERE_MIN else None

    def _bring_back(self, member: Member, action: Callable[[], None]) -> None:
        self._away.add(member.name)

        def bring_back() -> None:
            action()
            self._away.discard(member.name)

        self._coming.append(self._threads.submit(bring_back))


def run(requests: int, seed: int, directory: Path) -> tuple[Cluster, Outcome]:
    random = Random(seed)
    seconds = [random.choice((0.0, 0.0, 1.0, 3.0)) for _ in range(requests)]
    with Cluster.open(directory) as cluster, ThreadPoolExecutor(4) as clients, ThreadPoolExecutor() as threads:
        follower = Follower(cluster)
        follower.start()
        sent = [clients.submit(cluster.submit, number, seconds[number]) for number in range(requests)]
        _Disturber(cluster, random, threads).disturb(lambda: len(follower.ended) >= requests)
        acknowledged = [one.result() for one in sent]
        follower.finish(acknowledged)
        for worker in cluster.workers:
            worker.end()  # so that what was resumed has had its say
        follower.look()
        return cluster, judge(cluster, acknowledged, follower)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if (why := why_there_is_none()) is not None:
        sys.exit(why)
    with tempfile.TemporaryDirectory() as directory:
        cluster, outcome = run(options.requests, options.seed, Path(directory))
    print(f"requests {outcome.requests}, reruns {outcome.reruns}")
    print(", ".join(f"{what} {times}" for what, times in sorted(cluster.done.items())))
    longest = max(outcome.rerun_s, default=0.0)
    print(f"reruns of what ran at a death {len(outcome.rerun_s)}, longest time to one {longest:.1f} s")
    for line in outcome.wrong:
        print(line)
    sys.exit(1 if outcome.wrong or longest > RERUN_S else 0)


if __name__ == "__main__":
    main()
