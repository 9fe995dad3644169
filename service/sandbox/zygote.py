"""A zygote from its parent's side: the process that forks children, and is replaced when it is dead, hangs or is old.

    with zygote.fork("workers.programs.tracer", limits, files=[weights]) as child:
        child.channel.send(request)
        header, body = child.channel.receive(until=deadline)

Leaving the block ends the child and all that it started, however it behaves.
"""

import contextlib
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self

import orjson

from service.domain.errors import SandboxUnavailable
from service.sandbox import bubblewrap
from service.sandbox.channel import BODY_MAX_BYTES, HEADER_MAX_BYTES
from service.sandbox.child import Child
from service.sandbox.control import MESSAGE_MAX_BYTES, PING, PONG, RETIRE, Config, ForkRequest
from service.sandbox.jail import bare_environment
from service.sandbox.limits import Limits, Profile
from service.sandbox.log_tail import LogTail
from service.sandbox.shared_bodies import SharedBodies
from service.sandbox.tiers import Tier
from tracehouse.byte_units import MIB

LOG_MAX_BYTES = MIB
START_TIMEOUT_S = 120.0
# Children of one zygote share its address layout, and what one learns of it would help the next: so the zygote is
# replaced after so many forks.
FORKS_MAX = 1500
# A retired zygote holds some 200 MiB until its last runner ends: with so many of them, the newest is not replaced.
RETIRED_MAX = 2
# A fork takes milliseconds; a zygote that does not answer for so long hangs, or its machine only swaps.
ANSWER_TIMEOUT_S = 10.0
_PING_EVERY_S = 1.0
# So long without an answer is told as a fault, which ends nothing.
_SLOW_S = 2.0
_RESTART_EVERY_S = 5.0  # while it cannot be started
_END_TIMEOUT_S = 10.0
_LOG_TAIL_BYTES = 4000
_CREDENTIALS = struct.Struct("=3i")  # pid, uid, gid: struct ucred of unix(7)

_log = logging.getLogger(__name__)


class ZygoteFailed(Exception):
    """The zygote did not start. The text is the end of what it printed."""


class ZygoteLost(ZygoteFailed):
    """The zygote had started, and died or no longer answers."""


class ZygoteHealth(NamedTuple):
    """Why nothing can be forked now, if so, and how often the process was lost and another one started."""

    fault: str | None
    restarts: int


class Zygote:
    """A process that has imported `modules`, which include the programs, and forks children. Threads may share one.

    `packages` is a folder that exists; children may be given folders in it to import from, also ones that come later.
    With `forks_often`, the start takes half a second longer, and each fork 20 ms less.
    A failure of the operator's `preload` file is among the `warnings`. A process that dies is replaced at once, which
    takes as long as the imports do. So is one that does not answer within `answer_timeout_s` seconds: it is killed with
    its children. Whoever waits for a fork then gets a child of the next process. After `forks_max` forks, a new process
    takes its place; the old one ends with its last child.
    """

    def __init__(
        self,
        modules: Sequence[str],
        preload: Path | None = None,
        *,
        tier: Tier,
        path: Sequence[Path] = (),
        packages: Path | None = None,
        forks_often: bool = False,
        forks_max: int = FORKS_MAX,
        start_timeout_s: float = START_TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self._tier = tier
        self._config = Config(
            modules=list(modules),
            preload=str(preload.resolve()) if preload else None,
            path=[str(directory.resolve()) for directory in path],
            walls=tier.walls(modules),
            forks_often=forks_often,
        )
        self._packages = packages
        self._forks_max = forks_max
        self._start_timeout_s = start_timeout_s
        self._answer_timeout_s = answer_timeout_s
        self._lock = threading.RLock()
        self._slots: set[int] = set()  # of children that are not released yet
        self._process: _Process | None = None
        self._retired: list[_Process] = []
        self._closing = threading.Event()
        self._lost_count = 0
        self.warnings: list[str] = []

    def start(self) -> None:
        """Start the process and wait for its imports, so that the first fork need not. Raises ZygoteFailed."""
        with self._lock:
            self._running_process()

    def fork(
        self,
        program: str,
        limits: Limits,
        files: Sequence[int] = (),
        *,
        profile: Profile = "trace",
        packages: Sequence[str] = (),
        imports: Sequence[str] = (),
        on_log: Callable[[bytes], None] | None = None,
        log_max_bytes: int = LOG_MAX_BYTES,
        header_max_bytes: int = HEADER_MAX_BYTES,
        body_max_bytes: int = BODY_MAX_BYTES,
        shares_bodies: bool = False,
        answers: bool = False,
    ) -> Child:
        """Fork a child that runs `program.main(channel, files)` with its own descriptors for `files`.

        It can import from the folders in `packages`, after all others, and has the modules in `imports`, which are no
        submitted ones. If it `shares_bodies`, which is for a child that answers each frame before it gets the next
        one, large bodies lie in shared memory. Unless it `answers` clients, it gives way to those that do.
        Takes a few milliseconds, or a start when the process was lost. Raises SandboxUnavailable.
        """
        with contextlib.ExitStack() as unless_forked:
            slot = self._take_slot()
            unless_forked.callback(self._slots.discard, slot)
            bodies = SharedBodies.make() if shares_bodies else None
            if bodies is not None:
                unless_forked.callback(bodies.close)
                files = [*bodies.descriptors, *files]
            request = ForkRequest(
                program=program, profile=profile, limits=limits, packages=[*packages], slot=slot,
                imports=[*imports], shares_bodies=bodies is not None, answers=answers,
            )  # fmt: skip
            try:
                pid, lifeline, sock, log = self._fork(request, files)
            except ZygoteFailed as error:
                raise SandboxUnavailable(f"There is no zygote to fork from: {error}") from error
            except OSError as error:  # too many descriptors are open, or to be sent at once
                raise SandboxUnavailable(f"The zygote could not be asked: {error}") from error
            unless_forked.pop_all()
        return Child(
            pid,
            lifeline,
            sock,
            LogTail(log, log_max_bytes, on_log),
            on_release=partial(self._slots.discard, slot),
            header_max_bytes=header_max_bytes,
            body_max_bytes=body_max_bytes,
            bodies=bodies,
        )

    @property
    def health(self) -> ZygoteHealth:
        """Whether the next fork finds a process that answers."""
        process = self._process
        if process is None or process.status is not None:
            return ZygoteHealth("the process that forks all others is gone, and not started yet", self._lost_count)
        if process.silent_s > _SLOW_S:
            return ZygoteHealth("the process that forks all others does not answer", self._lost_count)
        return ZygoteHealth(None, self._lost_count)

    def close(self) -> None:
        """End the process and every child."""
        self._closing.set()
        with self._lock:
            for process in filter(None, [self._process, *self._retired]):
                process.end(grace_s=_END_TIMEOUT_S)
            self._process, self._retired = None, []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_slot(self) -> int:
        with self._lock:
            slot = next(slot for slot in count() if slot not in self._slots)
            self._slots.add(slot)
            return slot

    def _fork(self, request: ForkRequest, files: Sequence[int]) -> "_ForkedChild":
        with contextlib.suppress(ZygoteLost):
            return self._fork_once(request, files)
        return self._fork_once(request, files)

    def _fork_once(self, request: ForkRequest, files: Sequence[int]) -> "_ForkedChild":
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            lifeline, their_lifeline = _pid_reporting_pair()
            ours.enter_context(lifeline)
            theirs.enter_context(their_lifeline)
            sock, their_sock = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            ours.enter_context(sock)
            theirs.enter_context(their_sock)
            log, their_log = os.pipe()
            ours.callback(os.close, log)
            theirs.callback(os.close, their_log)

            process = self._ask(request, [their_lifeline.fileno(), their_sock.fileno(), their_log, *files])
            theirs.close()  # while we hold their ends too, we would never see them close
            pid = self._receive_pid(lifeline, process)
            ours.pop_all()
            return _ForkedChild(pid, lifeline, sock, log)

    def _ask(self, request: ForkRequest, descriptors: list[int]) -> "_Process":
        with self._lock:
            process = self._running_process()
            try:
                socket.send_fds(process.control, [request.model_dump_json().encode()], descriptors)
            except (ConnectionError, TimeoutError) as error:
                raise self._lost(process) from error
            process.forks += 1
            if process.forks % self._forks_max == 0 and len(self._retired) < RETIRED_MAX:
                threading.Thread(target=self._replace, args=(process,), name="zygote-replacement", daemon=True).start()
            return process

    def _receive_pid(self, lifeline: socket.socket, process: "_Process") -> int:
        try:
            message, pid = _receive_within(lifeline, self._answer_timeout_s)
        except (ConnectionError, TimeoutError) as error:
            raise self._lost(process) from error
        if pid is None:
            raise self._lost(process)
        answer = orjson.loads(message)
        if "forked" not in answer:
            raise SandboxUnavailable(f"The zygote did not fork: {answer.get('error', 'the child died at once')}")
        return pid

    def _running_process(self) -> "_Process":
        if self._closing.is_set():
            raise ZygoteFailed("it was closed")
        if self._process is None:
            self._process = self._start_process()
        return self._process

    def _start_process(self) -> "_Process":
        try:
            process = _Process(self._config, self._tier, self._packages)
        except OSError as error:
            raise ZygoteFailed(f"it cannot be started here: {error}") from error
        self.warnings = process.wait_until_ready(self._start_timeout_s)
        threading.Thread(target=self._watch, args=(process,), name="zygote-watch", daemon=True).start()
        return process

    def _watch(self, process: "_Process") -> None:
        """Ping the process until it ends. If it dies or hangs, kill it and start the next."""
        try:
            while process.answers(self._answer_timeout_s):
                if process.ended.wait(_PING_EVERY_S):
                    return
            if process in self._retired:
                return  # its last child has ended
        except TimeoutError:
            _log.warning("zygote hangs", extra={"seconds": self._answer_timeout_s})
        self._lost(process)
        while not self._closing.is_set():
            try:
                self.start()
                return
            except ZygoteFailed as error:
                _log.warning("zygote not started", extra={"error": str(error)})
                self._closing.wait(_RESTART_EVERY_S)

    def _replace(self, old: "_Process") -> None:
        """Start a new process while the old one goes on forking, then retire the old one."""
        try:
            new = self._start_process()
        except ZygoteFailed as error:
            _log.warning("zygote not replaced", extra={"error": str(error)})  # it is tried again after as many forks
            return
        with self._lock:
            if self._closing.is_set() or self._process is not old:
                new.end(grace_s=0)
                return
            self._process = new
            self._retired.append(old)
            old.retire()
        old.wait()  # until its last child has ended
        with self._lock:
            if old in self._retired:
                self._retired.remove(old)
                old.end(grace_s=0)

    def _lost(self, process: "_Process") -> ZygoteLost:
        with self._lock:
            if not process.ended.is_set():
                process.end(grace_s=0)
                _log.warning("zygote lost", extra={"status": process.status, "log": process.last_words})
                if self._process is process:
                    self._process = None
                    self._lost_count += 1
                elif process in self._retired:
                    self._retired.remove(process)
        return ZygoteLost(process.last_words or "it died")


class _ForkedChild(NamedTuple):
    """A child's pid, and our ends of its connections."""

    pid: int
    lifeline: socket.socket
    sock: socket.socket
    log: int


def _pid_reporting_pair() -> tuple[socket.socket, socket.socket]:
    """Make a connection. The kernel adds the sender's pid, in our numbering, to messages that our end receives."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def _receive_within(sock: socket.socket, timeout_s: float) -> tuple[bytes, int | None]:
    """Receive as `_receive_with_pid` does. Raises TimeoutError after two waits of half the time.

    One alone may have been used up while all of us were suspended.
    """
    sock.settimeout(timeout_s / 2)
    with contextlib.suppress(TimeoutError):
        return _receive_with_pid(sock)
    return _receive_with_pid(sock)


def _receive_with_pid(sock: socket.socket) -> tuple[bytes, int | None]:
    """Receive a message and its sender's pid; an empty message and None at the end."""
    message, ancillary, _, _ = sock.recvmsg(MESSAGE_MAX_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid, _, _ = _CREDENTIALS.unpack(data)
            return message, pid
    return b"", None


class _Process:
    """One process of a zygote."""

    def __init__(self, config: Config, tier: Tier, packages: Path | None) -> None:
        self.control, theirs = _pid_reporting_pair()
        self.forks = 0
        self.last_words = ""
        self.ended = threading.Event()  # by us
        self._asked_at: float | None = None  # since when a ping is not answered
        self._pid: int | None = None
        self._log = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it lives as long as this
        with theirs:
            # -I keeps the working directory and PYTHON* out of its imports; -B writes no bytecode.
            module = ["-I", "-B", "-m", "service.sandbox.fork_server"]
            program = [sys.executable, *module, str(theirs.fileno()), config.model_dump_json()]
            if tier is Tier.BUBBLEWRAP:
                program = bubblewrap.wrap_command(program, _paths_read_by_zygote(config, packages))
            self._popen = subprocess.Popen(
                program,
                env=bare_environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C on the service's terminal must only reach the service
            )

    @property
    def status(self) -> int | None:
        return self._popen.poll()

    def wait_until_ready(self, timeout_s: float) -> list[str]:
        """Wait until it can fork, and return its warnings."""
        self.control.settimeout(timeout_s)
        why = "died while it started"
        try:
            message, self._pid = _receive_with_pid(self.control)
        except TimeoutError:
            message, why = b"", f"did not answer within {timeout_s:g} s"
        except ConnectionError:
            message = b""
        if not message:
            self.end(grace_s=0)
            raise ZygoteFailed(self.last_words or f"the process that forks all others {why}")
        return [str(warning) for warning in orjson.loads(message)["warnings"]]

    @property
    def silent_s(self) -> float:
        """For how long it has not answered a ping."""
        asked_at = self._asked_at
        return 0.0 if asked_at is None else time.monotonic() - asked_at

    def answers(self, timeout_s: float) -> bool:
        """Ping it, and wait for the answer; False if it is gone. Raises TimeoutError."""
        self._asked_at = time.monotonic()
        try:
            self.control.send(PING)
            message, _ = _receive_within(self.control, timeout_s)
        except TimeoutError:
            raise
        except OSError:  # it has ended, or we have closed the socket
            return False
        self._asked_at = None
        return message == PONG

    def retire(self) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            self.control.send(RETIRE)

    def wait(self) -> None:
        self._popen.wait()

    def end(self, grace_s: float) -> None:
        """Close its control socket, so that it ends by itself; kill it after the grace."""
        self.ended.set()
        self.control.close()
        try:
            self._popen.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._kill()
            try:
                self._popen.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:  # it waits in the kernel, for a disk for instance
                _log.error("a zygote was killed and did not end", extra={"pid": self._pid, "seconds": _END_TIMEOUT_S})
        with self._log:
            size = os.fstat(self._log.fileno()).st_size
            tail = os.pread(self._log.fileno(), _LOG_TAIL_BYTES, max(0, size - _LOG_TAIL_BYTES))
        self.last_words = tail.decode(errors="backslashreplace").strip()

    def _kill(self) -> None:
        """Kill it; if what was started is bubblewrap around it, kill both."""
        if self._pid is not None and self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self._popen.kill()


def _paths_read_by_zygote(config: Config, packages: Path | None) -> list[str]:
    """Return what the zygote itself reads: more than its children, for the preload file may be anywhere.

    The packages are there too: a child can be given a part of what the zygote has, and nothing else.
    """
    preloaded = [str(Path(config.preload).parent)] if config.preload else []
    return [*config.walls.readable, *config.path, *preloaded, *([str(packages)] if packages else [])]
