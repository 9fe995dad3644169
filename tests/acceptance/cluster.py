"""Processes that answer HTTP and processes that trace, on one PostgreSQL and one directory of files."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from migrations.check import empty_schema
from tests.acceptance.conftest import ANSWER_S, TRACEHOUSE, Service, start_process

POSTGRES_URL = os.environ.get("TEST_POSTGRES_URL")


class Worker:
    """`tracehouse worker` in a process of its own, with the state directory of the services."""

    def __init__(
        self, state: Path, environment: dict[str, str], options: Sequence[str] = (), program: Path = TRACEHOUSE
    ) -> None:
        command = ["worker", "--pool", "cpu", "--slots", "1", "--state", state, *options]
        log_file = state / "worker.log"
        self.process, line = start_process(command, os.environ | environment, log_file, "worker is ready", program)
        self.address = line.partition("health and metrics at ")[2].strip()

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(by)
        status = self.process.wait(ANSWER_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status


class Cluster:
    """Services with the role api, and workers, that share a database and files."""

    def __init__(self, directory: Path, database_url: str, running: ExitStack, program: Path = TRACEHOUSE) -> None:
        self._program = program
        self._directory = directory
        self._running = running
        self.database_url = database_url
        self._environment = {"DATABASE_URL": database_url, "BLOB_URL": (directory / "files").as_uri()}

    @classmethod
    @contextmanager
    def open(cls, directory: Path) -> Iterator[Self]:
        """One with tables of its own on the PostgreSQL that `TEST_POSTGRES_URL` names. Its processes end with it."""
        assert POSTGRES_URL is not None
        with empty_schema(POSTGRES_URL) as url, ExitStack() as running:
            yield cls(directory, url, running)

    def until(self, end: ExitStack) -> "Cluster":
        """The same one, for processes that are ended earlier."""
        return Cluster(self._directory, self.database_url, end, self._program)

    def of_release(self, program: Path) -> "Cluster":
        """The same one, for processes of another release, whose `tracehouse` this is."""
        return Cluster(self._directory, self.database_url, self._running, program)

    def start_api(self, name: str, **environment: str) -> Service:
        return self._start(name, "api", environment)

    def start_infer(self, name: str, *options: str, **environment: str) -> Service:
        return self._start(name, "infer", environment, options)

    def start_worker(self, of: Service, *options: str, **environment: str) -> Worker:
        worker = Worker(of.state, self._environment | environment, options, self._program)
        self._running.callback(worker.end)
        return worker

    def _start(self, name: str, role: str, environment: dict[str, str], options: Sequence[str] = ()) -> Service:
        environment = self._environment | environment
        options = ("--role", role, *options)
        service = Service(self._directory / name, options=options, program=self._program, **environment)
        self._running.callback(service.close)
        return service
