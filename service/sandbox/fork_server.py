"""The zygote's program: it does the slow imports once and then forks a confined child for every request.

    python -I -m service.sandbox.fork_server <control descriptor> <config as JSON>

Its parent is `service.sandbox.zygote`. A request comes over the control socket with descriptors: the child's lifeline,
its channel, its log and its files. Over the lifeline the child reports that it runs, and the zygote how it ended.
When the parent closes a lifeline, the child is killed; when it closes the control socket, everything ends.
"""

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import os
import resource
import runpy
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn, TextIO

import orjson
from pydantic import JsonValue

from service.sandbox import huge_pages, jail
from service.sandbox.channel import SENT_HEADER_MAX_BYTES, Channel
from service.sandbox.control import MESSAGE_MAX_BYTES, PING, PONG, RETIRE, Config, ForkRequest
from service.sandbox.jail import Walls
from service.sandbox.kernel import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, prctl
from service.sandbox.priority import session_gives_way
from service.sandbox.process_stat import count_threads
from service.sandbox.shared_bodies import SharedBodies

_DESCRIPTORS_MAX = 253  # the kernel passes no more at once: SCM_MAX_FD
_WARNING_MAX_CHARACTERS = 4000
# A child makes at most some ten thousand threads between two looks; each costs the kernel about 20 KiB.
_CHECK_S = 0.1
_VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    config = Config.model_validate_json(sys.argv[2])
    # Only the parent ends the zygote and its children, after their last answers: it acts on a signal to the whole
    # service, such as that of a container's stop.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    with _gpus_hidden():
        warnings = _import(config)
    _require_one_thread("a fork would lose all but one of them")
    _flush()  # otherwise every child prints it again
    gc.collect()
    gc.freeze()  # so that a child's collector does not copy every page that it shares with the others
    session_gives_way()
    if config.forks_often:
        huge_pages.collapse()
    prctl(PR_SET_DUMPABLE, 0)  # no other process may read its memory, not even one of the same user
    with contextlib.suppress(ConnectionError):
        _send(control, warnings=[*warnings])
        ForkServer(control, config.modules, config.walls).serve()


def _require_one_thread(why: str) -> None:
    if len(threads := _threads()) != 1:
        sys.exit(f"{len(threads)} threads run after the imports ({', '.join(threads)}), and {why}")


def _threads() -> list[str]:
    """The names of this process's threads, also of those that Python does not know."""
    return [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]


def _import(config: Config) -> list[str]:
    sys.path[:0] = config.path
    gc.disable()  # what is imported stays: going through it again and again takes a tenth of the imports' time
    for module in config.modules:
        importlib.import_module(module)
    gc.enable()
    if config.preload is None:
        return []
    try:
        runpy.run_path(config.preload)
    except (Exception, SystemExit):  # noqa: BLE001 - the operator's file: anything may come out
        return [f"{config.preload} failed: {traceback.format_exc()[-_WARNING_MAX_CHARACTERS:]}"]
    return []


@contextlib.contextmanager
def _gpus_hidden() -> Iterator[None]:
    """Hide GPUs from what is imported. Children see them again.

    torch counts GPUs when it traces a module, and NVIDIA's library starts a thread then, which stays.
    """
    shown = os.environ.get(_VISIBLE_GPUS)
    os.environ[_VISIBLE_GPUS] = ""
    yield
    del os.environ[_VISIBLE_GPUS]
    if shown is not None:
        os.environ[_VISIBLE_GPUS] = shown


@dataclass
class _RunningChild:
    """A living child of the zygote."""

    lifeline: socket.socket
    threads_max: int | None
    over: str | None = None  # the limit that it exceeded


class ForkServer:
    """Forks a child for each request, and reports how each ended."""

    def __init__(self, control: socket.socket, programs: list[str], walls: Walls) -> None:
        self._control = control
        self._programs = programs
        self._walls = walls
        self._children: dict[int, _RunningChild] = {}  # by the pid, until it was reaped
        self._serving = True
        self._retired = False
        self._selector = selectors.PollSelector()

    def serve(self) -> None:
        """Fork until the parent closes the control socket or is gone; then end every child.

        After RETIRE, it forks no more and returns when its last child has ended.
        """
        woken, wake = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(woken, selectors.EVENT_READ, partial(self._reap, woken))
        self._selector.register(self._control, selectors.EVENT_READ, self._answer)
        while self._serving and not (self._retired and not self._children):
            watched = any(child.threads_max for child in self._children.values())
            for key, _ in self._selector.select(_CHECK_S if watched else None):
                key.data()
            self._kill_over_limits()
        self._end()

    def _answer(self) -> None:
        try:
            message, descriptors, flags, _ = socket.recv_fds(
                self._control, MESSAGE_MAX_BYTES, _DESCRIPTORS_MAX, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionError:
            message = b""
        if not message:
            self._serving = False
            return
        if message == RETIRE:
            self._retired = True
            return
        if message == PING:
            with contextlib.suppress(ConnectionError):
                self._control.send(PONG)
            return
        if not descriptors:
            return  # no lifeline could be passed: the parent sees that its end is closed
        lifeline = socket.socket(fileno=descriptors[0])
        request = ForkRequest.model_validate_json(message)
        if flags & socket.MSG_CTRUNC:
            _send_last(lifeline, error="it has too many descriptors open to take those of one more child")
        elif request.program in self._programs:
            self._fork(request, lifeline, descriptors[1:])
        else:
            _send_last(lifeline, error=f"{request.program} is not one of this zygote's programs")
        for descriptor in descriptors[1:]:
            os.close(descriptor)

    def _fork(self, request: ForkRequest, lifeline: socket.socket, descriptors: list[int]) -> None:
        zygote = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            _send_last(lifeline, error=f"no child could be forked: {error}")
            return
        if pid == 0:
            _run_child(request, lifeline, descriptors, self._walls, zygote)
        self._children[pid] = _RunningChild(lifeline, request.limits.threads)
        self._selector.register(lifeline, selectors.EVENT_READ, partial(self._kill, pid))

    def _kill_over_limits(self) -> None:
        """Kill children that have more threads than they may."""
        for pid, child in self._children.items():
            if child.threads_max is not None and not child.over and count_threads(pid) > child.threads_max:
                child.over = "threads"
                _kill_group(pid)

    def _kill(self, pid: int) -> None:
        """Kill a child whose lifeline the parent has closed."""
        if pid in self._children:  # it may have been reaped since the selector returned
            self._selector.unregister(self._children[pid].lifeline)
            _kill_group(pid)

    def _reap(self, woken: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 4096)
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with contextlib.suppress(ChildProcessError):
            while child := os.waitid(os.P_ALL, 0, ended):
                _kill_group(child.si_pid)  # while it is a zombie its pid can be nobody else's
                _, status, used = os.wait4(child.si_pid, 0)
                forked = self._children.pop(child.si_pid, None)
                self._kill_strays()
                if forked is not None:
                    self._report(forked, os.waitstatus_to_exitcode(status), used)

    def _report(self, child: _RunningChild, code: int, used: resource.struct_rusage) -> None:
        with contextlib.suppress(KeyError):  # unregistered when it was killed
            self._selector.unregister(child.lifeline)
        _send_last(
            child.lifeline,
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            maxrss_kib=used.ru_maxrss,
            cpu_s=used.ru_utime + used.ru_stime,
            over=child.over,
        )

    def _kill_strays(self) -> None:
        """Kill processes that dead children left: they are our children now, in no living child's group.

        Processes that those leave in turn become our children when they are reaped, and are killed then.
        """
        for pid in _children():
            if pid not in self._children and os.getpgid(pid) not in self._children:
                os.kill(pid, signal.SIGKILL)

    def _end(self) -> None:
        for pid in self._children:
            _kill_group(pid)
        self._children.clear()
        with contextlib.suppress(ChildProcessError):
            while True:
                self._kill_strays()
                os.wait()


def _run_child(
    request: ForkRequest, lifeline: socket.socket, descriptors: list[int], walls: Walls, zygote: int
) -> NoReturn:
    """Run the child in this forked process, and never return into the zygote's loop."""
    status = 1
    try:
        _send(lifeline, forked=True)  # the child itself sends it: the kernel adds the sender's pid for the parent
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        connected, log, *given = descriptors
        _detach_stdin()
        _redirect_output(log)
        program = importlib.import_module(request.program)
        for module in request.imports:
            importlib.import_module(module)
        if request.imports:
            _require_one_thread("some walls hold for the thread alone that builds them")
        # Made before the jail, for it asks the kernel what jailed code may not.
        channel = Channel(socket.socket(fileno=connected), header_max_bytes=SENT_HEADER_MAX_BYTES)
        sys.argv = [request.program]
        walls = walls.with_readable(request.packages)
        jail.enter(
            walls, request.limits, request.profile,
            answers=request.answers, keep=[connected, *given], slot=request.slot, parent=zygote,
        )  # fmt: skip
        sys.path += request.packages  # not before: no code of theirs is to run outside of the jail
        if request.shares_bodies:
            to_child, of_child, *given = given
            channel.share_bodies(SharedBodies.in_child(to_child, of_child))
        program.main(channel, given)
        status = 0
    except BaseException:  # noqa: BLE001 - submitted code may raise anything, and all of it ends here
        traceback.print_exc()
    finally:
        try:
            _flush()
        finally:
            os._exit(status)


def _detach_stdin() -> None:
    """Give the child its own standard input: on a shared open file, a child could set flags for the next one."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _redirect_output(log: int) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout, sys.stderr = _open_lines(1), _open_lines(2)
    # So that the log has the Python lines at which it crashed or used up its time.
    faulthandler.enable()
    faulthandler.register(signal.SIGXCPU, chain=True)


def _open_lines(descriptor: int) -> TextIO:
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # torch's own `dump()` methods print past Python


def _kill_group(pid: int) -> None:
    """Kill a child that was not yet reaped, and all that stayed in its process group."""
    with contextlib.suppress(ProcessLookupError):  # killed before it made its group
        os.killpg(pid, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)


def _children() -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except FileNotFoundError:  # without CONFIG_PROC_CHILDREN, processes outside of a child's group are not found
        return []


def _send(sock: socket.socket, **message: JsonValue) -> None:
    sock.send(orjson.dumps(message))


def _send_last(sock: socket.socket, **message: JsonValue) -> None:
    with contextlib.suppress(ConnectionError):
        _send(sock, **message)
    sock.close()


if __name__ == "__main__":
    main()
