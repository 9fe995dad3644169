"""The zygote's program: it does the slow imports once and then forks a confined child for every request.

    python -I -m service.sandbox.fork_server <control descriptor> <config as JSON>

Its parent is `service.sandbox.zygote`. A request comes over the control socket with its descriptors: the child's
lifeline, its channel, its log and its files. Over the lifeline the child says that it is there, and the parent learns
how it ended; the end of the lifeline is the child's end, and the end of the control socket is the end of all.
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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn, TextIO

import orjson
from pydantic import JsonValue

from service.sandbox import jail
from service.sandbox.channel import Channel
from service.sandbox.control import MESSAGE_MAX_BYTES, RETIRE, Config, ForkRequest
from service.sandbox.jail import Walls
from service.sandbox.kernel import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, prctl

_DESCRIPTORS_MAX = 253  # the kernel takes no more at once: SCM_MAX_FD
_WARNING_MAX_CHARACTERS = 4000
# A child makes at most some ten thousand threads between two looks; each costs the kernel about 20 KiB.
_LOOK_S = 0.1


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    config = Config.model_validate_json(sys.argv[2])
    # Only the parent ends the zygote and its children, after their last answers: a signal to the whole service, such as
    # that of a container's stop, is for the parent to act on.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    warnings = _import(config)
    if (threads := len(os.listdir("/proc/self/task"))) != 1:
        sys.exit(f"{threads} threads run after the imports, and a fork would lose all but one of them")
    _flush()  # or every child prints it again
    gc.collect()
    gc.freeze()  # so that a child's collector does not copy every page that it shares with the others
    prctl(PR_SET_DUMPABLE, 0)  # its memory is nobody's to read, not even that of its user's other processes
    with contextlib.suppress(ConnectionError):
        _tell(control, warnings=[*warnings])
        ForkServer(control, config.modules, config.walls).serve()


def _import(config: Config) -> list[str]:
    sys.path[:0] = config.path
    for module in config.modules:
        importlib.import_module(module)
    if config.preload is None:
        return []
    try:
        runpy.run_path(config.preload)
    except (Exception, SystemExit):  # noqa: BLE001 - the operator's file: anything may come out
        return [f"{config.preload} failed: {traceback.format_exc()[-_WARNING_MAX_CHARACTERS:]}"]
    return []


@dataclass
class _Living:
    """A child of the zygote's."""

    lifeline: socket.socket
    threads_max: int | None
    over: str | None = None  # the limit that it was killed for


class ForkServer:
    def __init__(self, control: socket.socket, programs: list[str], walls: Walls) -> None:
        self._control = control
        self._programs = programs
        self._walls = walls
        self._children: dict[int, _Living] = {}  # by the pid, until it was reaped
        self._serving = True
        self._retired = False
        self._selector = selectors.PollSelector()

    def serve(self) -> None:
        """Fork until the parent closes the control socket or is gone; then end every child.

        Told to retire, it waits for its children's own ends.
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
            for key, _ in self._selector.select(_LOOK_S if watched else None):
                key.data()
            self._look()
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
        if not descriptors:
            return  # none was left for its lifeline, whose end tells the parent
        lifeline = socket.socket(fileno=descriptors[0])
        request = ForkRequest.model_validate_json(message)
        if flags & socket.MSG_CTRUNC:
            _tell_last(lifeline, error="it has too many descriptors open to take those of one more child")
        elif request.program in self._programs:
            self._fork(request, lifeline, descriptors[1:])
        else:
            _tell_last(lifeline, error=f"{request.program} is not one of this zygote's programs")
        for descriptor in descriptors[1:]:
            os.close(descriptor)

    def _fork(self, request: ForkRequest, lifeline: socket.socket, descriptors: list[int]) -> None:
        zygote = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            _tell_last(lifeline, error=f"no child could be forked: {error}")
            return
        if pid == 0:
            _become(request, lifeline, descriptors, self._walls, zygote)
        self._children[pid] = _Living(lifeline, request.limits.threads)
        self._selector.register(lifeline, selectors.EVENT_READ, partial(self._kill, pid))

    def _look(self) -> None:
        """Kill a child that has more threads than it may."""
        for pid, child in self._children.items():
            if child.threads_max is not None and not child.over and _threads(pid) > child.threads_max:
                child.over = "threads"
                _kill_group(pid)

    def _kill(self, pid: int) -> None:
        """The parent let go of this child's lifeline."""
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

    def _report(self, child: _Living, code: int, used: resource.struct_rusage) -> None:
        with contextlib.suppress(KeyError):  # unregistered when it was killed
            self._selector.unregister(child.lifeline)
        _tell_last(
            child.lifeline,
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            maxrss_kib=used.ru_maxrss,
            cpu_s=used.ru_utime + used.ru_stime,
            over=child.over,
        )

    def _kill_strays(self) -> None:
        """Kill what dead children left behind: it is ours now, and not of a living child's session.

        What those leave behind becomes ours in turn when they are reaped, and is killed then.
        """
        for pid in _children():
            if pid not in self._children and os.getsid(pid) not in self._children:
                os.kill(pid, signal.SIGKILL)

    def _end(self) -> None:
        for pid in self._children:
            _kill_group(pid)
        self._children.clear()
        with contextlib.suppress(ChildProcessError):
            while True:
                self._kill_strays()
                os.wait()


def _become(
    request: ForkRequest, lifeline: socket.socket, descriptors: list[int], walls: Walls, zygote: int
) -> NoReturn:
    """Be the child: never return into the zygote's loop."""
    status = 1
    try:
        _tell(lifeline, forked=True)  # its own words, by which the kernel tells the parent its pid
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        connected, log, *files = descriptors
        _read_nothing()
        _print_to(log)
        program = importlib.import_module(request.program)
        channel = Channel(socket.socket(fileno=connected))  # which asks the kernel what Python code may not
        sys.argv = [request.program]
        jail.enter(walls, request.limits, request.profile, keep=[connected, *files], slot=request.slot, parent=zygote)
        program.main(channel, files)
        status = 0
    except BaseException:  # noqa: BLE001 - submitted code: anything may come out, and all of it ends here
        traceback.print_exc()
    finally:
        try:
            _flush()
        finally:
            os._exit(status)


def _read_nothing() -> None:
    """Of an open file that all children share, one could set flags that the next would find."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _print_to(log: int) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout, sys.stderr = _lines_to(1), _lines_to(2)
    # The Python lines that crashed it or used up its time are the most that its log can say.
    faulthandler.enable()
    faulthandler.register(signal.SIGXCPU, chain=True)


def _lines_to(descriptor: int) -> TextIO:
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


def _threads(pid: int) -> int:
    """0 where this cannot be told."""
    try:
        # What comes after the program's name, which may hold anything; see proc_pid_stat(5).
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[17])
    except OSError:
        return 0


def _children() -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN: what left its process group is not found
        return []


def _tell(sock: socket.socket, **message: JsonValue) -> None:
    sock.send(orjson.dumps(message))


def _tell_last(sock: socket.socket, **message: JsonValue) -> None:
    with contextlib.suppress(ConnectionError):
        _tell(sock, **message)
    sock.close()


if __name__ == "__main__":
    main()
