"""A PostgreSQL of its own, which can be restarted, killed and frozen. Its user starts it, whom only root can become."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

_PROGRAMS = "/usr/lib/postgresql"
_USER = "postgres"


def why_there_is_none() -> str | None:
    """Why none can be started on this machine; None if one can."""
    if os.geteuid() != 0:
        return "only root can start a PostgreSQL as the user that may run it"
    if not _programs():
        return f"no PostgreSQL is installed in {_PROGRAMS}"
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        return f"there is no user {_USER}"
    return None


def _programs() -> Path | None:
    return max(Path(_PROGRAMS).glob("*/bin"), default=None, key=lambda path: int(path.parent.name))


class PostgresServer:
    """Listens on a socket file, and on an address for whoever reaches it, if it is given one.

    What it has acknowledged outlives it, but not the machine.
    """

    def __init__(self, address: str = "") -> None:
        self._address = address
        self._directory = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))  # a socket's path is short
        shutil.chown(self._directory, _USER)
        self._run("initdb", "--auth", "trust", "--no-sync")
        if address:
            with (self._directory / "data" / "pg_hba.conf").open("a") as lets_in:
                lets_in.write("host all all samenet trust\n")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://{_USER}@/postgres?host={self._address or self._directory}"

    def start(self) -> None:
        settings = f"-c listen_addresses={self._address} -c unix_socket_directories={self._directory} -c fsync=off"
        self._run("pg_ctl", "start", "--silent", "--wait", "--log", str(self._directory / "log"), "-o", settings)

    def kill(self) -> None:
        """Kill it with all of its processes, as a machine that loses power."""
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(self._processes(), timeout=60)

    def restart(self) -> None:
        """Have it end all connections, and begin anew."""
        self._run("pg_ctl", "stop", "--silent", "--wait", "--mode", "fast")
        self.start()

    def freeze(self) -> None:
        """Let it take connections, and answer none."""
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        for process in reversed(self._processes()):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)

    def _processes(self) -> list[psutil.Process]:
        """Those that live, the one first that starts all others."""
        with suppress(OSError, psutil.NoSuchProcess):
            main = psutil.Process(int((self._directory / "data" / "postmaster.pid").read_text().splitlines()[0]))
            return [main, *main.children(recursive=True)]
        return []

    def _run(self, program: str, *arguments: str) -> None:
        programs = _programs()
        assert programs is not None
        subprocess.run(
            ["runuser", "-u", _USER, "--", programs / program, *arguments],
            env=os.environ | {"PGDATA": str(self._directory / "data"), "LC_ALL": "C.UTF-8"},
            cwd="/",
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self.kill()
        shutil.rmtree(self._directory)
