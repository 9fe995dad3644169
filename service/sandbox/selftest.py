"""The self-test, a child program: it attacks its own jail and reports the attacks that succeed.

It is a sample, which runs at each start of the service; the tests have every attack that we know.
"""

import ctypes
import mmap
import os
import resource
import signal
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from service.sandbox.channel import Channel
from service.sandbox.kernel import syscall
from service.sandbox.system_calls import find_number
from tracehouse.frozen import Frozen

_CLONE_NEWUSER = 0x10000000
_PTRACE_SEIZE = 0x4206
_PACKAGE = os.__file__


class World(Frozen):
    """What the parent prepares: a secret file, a victim process, and what submitted code is allowed."""

    secret: str
    victim: int  # a process
    reads_packages: bool
    address_space_mib: int


class SelfTestReport(Frozen):
    """`got_through`: attacks that succeeded; `missing`: what submitted code is allowed, but could not do."""

    got_through: list[str]
    missing: list[str]


def main(channel: Channel, files: list[int]) -> None:  # noqa: ARG001 - it is given none
    header, _ = channel.receive()
    world = World.model_validate(header)
    attacks, needs = dict(_ATTACKS), dict(_NEEDS)
    if world.reads_packages:
        needs["to read an installed package"] = _read_package
    else:
        attacks = {"reads an installed package": _read_package, **attacks}
    report = SelfTestReport(
        got_through=[name for name, attempt in attacks.items() if _succeeds(attempt, world)],
        missing=[name for name, attempt in needs.items() if not _succeeds(attempt, world)],
    )
    channel.send(report.model_dump())
    channel.receive()  # here the parent kills it, which tests that it can


def _succeeds(attempt: Callable[[World], object], world: World) -> bool:
    try:
        return bool(attempt(world))
    except (OSError, ValueError, MemoryError, RuntimeError):
        return False


def _read_file(world: World) -> object:
    return Path(world.secret).read_text()


def _list_directory(world: World) -> object:
    return os.listdir(Path(world.secret).parent)


def _write_file(world: World) -> object:
    return Path(world.secret).write_text("overwritten")


def _create_file(world: World) -> object:
    return Path(world.secret).with_name("created").open("w")


def _write_package(_: World) -> object:
    return os.open(_PACKAGE, os.O_WRONLY) >= 0


def _change_mode(world: World) -> object:
    os.chmod(world.secret, 0o777)
    return True


def _read_environment(_: World) -> object:
    return Path(f"/proc/{os.getppid()}/environ").read_bytes()


def _open_socket(_: World) -> object:
    return socket.socket()


def _open_unix_socket(_: World) -> object:
    return socket.socketpair()


def _fork(_: World) -> bool:
    if os.fork() == 0:
        os._exit(0)
    return True


def _signal_another(world: World) -> bool:
    os.kill(world.victim, 0)
    return True


def _trace_another(world: World) -> bool:
    return _libc_call("ptrace", _PTRACE_SEIZE, world.victim, 0, 0)


def _leave_for_namespace(_: World) -> bool:
    return _libc_call("unshare", _CLONE_NEWUSER)


def _mount(_: World) -> bool:
    return _libc_call("mount", b"none", b"/", b"tmpfs", 0, None)


def _make_ring(_: World) -> bool:
    return _call("io_uring_setup", 1, bytes(256))


def _join_session_keyring(_: World) -> bool:
    return _call("keyctl", 1, None)


def _load_bpf(_: World) -> bool:
    return _call("bpf", 0, struct.pack("=IIII", 1, 4, 4, 1) + bytes(56), 72)


def _raise_limit(_: World) -> bool:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return True


def _take_memory(world: World) -> object:
    return mmap.mmap(-1, (world.address_space_mib + 1) * 2**20)


def _execute(_: World) -> None:
    os.execv("/bin/true", ["true"])  # if this succeeds, the parent gets no report


_ATTACKS: dict[str, Callable[[World], object]] = {
    "reads a file": _read_file,
    "lists a directory": _list_directory,
    "writes a file": _write_file,
    "creates a file": _create_file,
    "writes an installed package": _write_package,
    "changes a file's mode": _change_mode,
    "reads another process's environment": _read_environment,
    "opens a socket": _open_socket,
    "opens a unix socket": _open_unix_socket,
    "forks": _fork,
    "signals another process": _signal_another,
    "traces another process": _trace_another,
    "makes a namespace": _leave_for_namespace,
    "mounts": _mount,
    "makes an io_uring": _make_ring,
    "joins a keyring": _join_session_keyring,
    "loads BPF": _load_bpf,
    "raises a limit": _raise_limit,
    "takes more memory than it may": _take_memory,
    "executes a program": _execute,
}


def _start_thread(_: World) -> bool:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    return True


def _signal_itself(_: World) -> bool:
    """Raise a signal as abort() does, one that does nothing."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.raise_signal(signal.SIGUSR1)
    return True


def _read_package(_: World) -> object:
    return Path(_PACKAGE).read_bytes()


_NEEDS: dict[str, Callable[[World], object]] = {
    "to start a thread": _start_thread,
    "to signal itself": _signal_itself,
    "to map memory": lambda _: mmap.mmap(-1, 2**20),
}


def _call(name: str, *arguments: int | bytes | None) -> bool:
    called = find_number(name)
    return called is not None and syscall(called, *arguments) >= 0


def _libc_call(name: str, *arguments: object) -> bool:
    result: int = getattr(ctypes.CDLL(None), name)(*arguments)
    return result >= 0
