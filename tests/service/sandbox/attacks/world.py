"""The world around a child, as the tests set it up: what there is to steal, to change and to kill.

Secrets are words that the child is not told; finding one in what it said is proof.
"""

import contextlib
import ctypes
import os
import secrets
import select
import shutil
import socket
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import service

HANDLE_BYTES = 128
SWAP_PAGES = 16

_VICTIM = """
import ctypes, os, sys
secret, directory = os.environ["SECRET"].encode(), sys.argv[1]
memory = ctypes.create_string_buffer(b"memory-" + secret)
descriptor = os.memfd_create("service")
os.write(descriptor, b"file-" + secret)
os.chdir(directory)
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # where Yama asks: anybody may trace this
print(ctypes.addressof(memory), len(memory.value), descriptor, flush=True)
for _ in sys.stdin:
    print(memory.raw.hex(), flush=True)
"""


def token() -> str:
    return "token-" + secrets.token_hex(12)


class Victim:
    """A process of the service's user, with a secret in its environment, arguments, memory and open files."""

    def __init__(self, directory: Path) -> None:
        self.token = token()
        directory.mkdir()
        (directory / "secret.txt").write_text(self.token)
        program = [sys.executable, "-I", "-S", "-c", _VICTIM, str(directory), f"argument-{self.token}"]
        self._popen = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"SECRET": self.token},
            text=True,
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self.address, self.size, self.descriptor = map(int, self._line().split())
        self._born = self.condition()

    @property
    def harmed(self) -> bool:
        try:
            return self.condition() != self._born
        except (OSError, KeyError):  # of a dead process the kernel tells less
            return True

    def condition(self) -> Any:
        """All that another process might change of it. Raises OSError where it is gone."""
        # A signal takes effect when the process is scheduled next, which an answer proves it was.
        memory = self.memory()
        status = dict(line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        return (
            memory,
            self._is_stopped(),
            status["TracerPid"],
            status["Cpus_allowed"],
            os.getpriority(os.PRIO_PROCESS, self.pid),
            os.sched_getscheduler(self.pid),
            Path(f"/proc/{self.pid}/limits").read_text(),
            Path(f"/proc/{self.pid}/oom_score_adj").read_text(),
        )

    def memory(self) -> str:
        """What is in it, by its own word; nothing where it is stopped. Raises OSError where it is gone."""
        assert self._popen.stdin is not None
        self._popen.stdin.write("\n")
        self._popen.stdin.flush()
        return self._line()

    def _is_stopped(self) -> bool:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"

    def end(self) -> None:
        self._popen.kill()
        self._popen.communicate()

    def _line(self) -> str:
        assert self._popen.stdout is not None
        while not select.select([self._popen.stdout], [], [], 0.02)[0]:
            if self._is_stopped():
                return ""
        return self._popen.stdout.readline()


class Listeners:
    """Whom a child might talk to: every kind of address, each with somebody there."""

    def __init__(self, directory: Path) -> None:
        self._word = secrets.token_hex(8)
        self._sockets: list[socket.socket] = []
        self.tcp = self._bound(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))[1]
        self.udp = self._bound(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))[1]
        self.tcp6 = self.udp6 = 0
        if has_ipv6():
            self.tcp6 = self._bound(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))[1]
            self.udp6 = self._bound(socket.AF_INET6, socket.SOCK_DGRAM, ("::1", 0))[1]
        self.unix = self._bound(socket.AF_UNIX, socket.SOCK_STREAM, str(directory / "stream"))
        self.datagram = self._bound(socket.AF_UNIX, socket.SOCK_DGRAM, str(directory / "datagram"))
        self.seqpacket = self._bound(socket.AF_UNIX, socket.SOCK_SEQPACKET, str(directory / "seqpacket"))
        self.abstract = self._word
        self._bound(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + self._word)
        for name in ("stream", "datagram", "seqpacket"):
            (directory / name).chmod(0o777)

    def _bound(self, family: int, kind: int, address: Any) -> Any:
        sock = socket.socket(family, kind)
        sock.bind(address)
        if kind != socket.SOCK_DGRAM:
            sock.listen()
        sock.setblocking(False)
        self._sockets.append(sock)
        return sock.getsockname()

    def heard(self) -> bool:
        """Whether anything came, to any of them."""
        came = False
        for sock in self._sockets:
            with contextlib.suppress(BlockingIOError):
                if sock.type == socket.SOCK_DGRAM:
                    sock.recv(100)
                else:
                    sock.accept()[0].close()
                came = True
        return came

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


class Place:
    """What lasts for many attacks: a directory that every user can reach, the listeners, the installed packages."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="tracehouse-attacks-"))
        self.root.chmod(0o755)
        (self.root / "sockets").mkdir()
        self.listeners = Listeners(self.root / "sockets")
        # By its name the jail takes it for one where packages are installed, so that it may be read.
        self.packages = self.root / "site-packages"
        self.packages.mkdir(mode=0o755)
        (self.packages / "installed_package.py").write_text("answer = 42\n")
        self.victim: Victim | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.victim is not None:
            self.victim.end()
        self.listeners.close()
        shutil.rmtree(self.root)


class World:
    """What one attack is let loose on. Every file may be reached and changed, but for the jail."""

    def __init__(self, place: Place) -> None:
        self.place = place
        if place.victim is not None and place.victim.harmed:
            place.victim.end()
            place.victim = None
        self.directory = Path(tempfile.mkdtemp(dir=place.root))
        self.token, self.sibling_token = token(), token()
        self.word = secrets.token_hex(8)
        self.key = secrets.randbelow(2**30) + 1  # of what System V keeps
        self._make_files()
        place.victim = place.victim or Victim(place.root / f"victim-{self.word}")
        self.victim = place.victim
        for path in (place.packages, place.packages / "installed_package.py"):
            path.chmod(0o777)
        place.listeners.heard()
        self._before = self._fingerprint()

    @property
    def tokens(self) -> list[str]:
        return [self.token, self.sibling_token, self.victim.token]

    def targets(self) -> dict[str, Any]:
        """What the child is told."""
        listeners, victim = self.place.listeners, self.victim
        return {
            "word": self.word,
            "key": self.key,
            "secret": str(self.directory / "secret.txt"),
            "link": str(self.directory / "link.txt"),
            "file": str(self.directory / "file.txt"),
            "directory": str(self.directory),
            "nested": str(self.directory / "nested"),
            "given": str(self.directory / "given.bin"),
            "swap": str(self.directory / "swap"),
            "handle": self._handle().hex(),
            "shared": f"/dev/shm/tracehouse-{self.word}",
            "temporary": str(Path(tempfile.gettempdir(), f"tracehouse-{self.word}")),
            "packages": str(self.place.packages),
            "purelib": sysconfig.get_path("purelib"),
            "stdlib": sysconfig.get_path("stdlib"),
            "scripts": sysconfig.get_path("scripts"),
            "project": project(),
            "python": sys.executable,
            "victim": victim.pid,
            "address": victim.address,
            "size": victim.size,
            "descriptor": victim.descriptor,
            "tcp": listeners.tcp,
            "tcp6": listeners.tcp6,
            "udp": listeners.udp,
            "udp6": listeners.udp6,
            "unix": listeners.unix,
            "datagram": listeners.datagram,
            "seqpacket": listeners.seqpacket,
            "abstract": listeners.abstract,
        }

    @contextlib.contextmanager
    def given(self, archive: bytes | None) -> Iterator[list[int]]:
        """The descriptors that a child gets: one to read a file, and one to read its archive."""
        with contextlib.ExitStack() as opened:
            files = [opened.enter_context(open(self.directory / "given.bin", "rb"))]
            if archive is not None:
                (self.directory / "archive.pt").write_bytes(archive)
                files.append(opened.enter_context(open(self.directory / "archive.pt", "rb")))
            self._before = self._fingerprint()
            yield [file.fileno() for file in files]

    def changed(self) -> bool:
        return self._fingerprint() != self._before

    def filled_mib(self) -> float:
        """What is on the disk beneath its directory."""
        return sum(path.lstat().st_blocks * 512 for path in self.directory.rglob("*")) / 2**20

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        for extra in self.place.packages.iterdir():
            if extra.name != "installed_package.py":
                shutil.rmtree(extra) if extra.is_dir() else extra.unlink()
        (self.place.packages / "installed_package.py").write_text("answer = 42\n")

    def _make_files(self) -> None:
        self.directory.chmod(0o777)
        (self.directory / "secret.txt").write_text(f"file-{self.token}")
        (self.directory / f"name-{self.token}").touch()
        (self.directory / "link.txt").symlink_to(self.directory / "secret.txt")
        (self.directory / "file.txt").write_text("as it was")
        (self.directory / "given.bin").write_bytes(b"given")
        (self.directory / "nested").mkdir()
        (self.directory / "swap").write_bytes(_swap_space())
        for name in ("secret.txt", "file.txt", "given.bin", "nested"):
            (self.directory / name).chmod(0o777)
        (self.directory / "swap").chmod(0o600)

    def _handle(self) -> bytes:
        """The kernel's own name for the secret, as name_to_handle_at(2) tells it to anybody."""
        handle = ctypes.create_string_buffer(struct.pack("=Ii", HANDLE_BYTES, 0), 8 + HANDLE_BYTES)
        mount = ctypes.c_int()
        path = os.fsencode(self.directory / "secret.txt")
        ctypes.CDLL(None).name_to_handle_at(-100, path, handle, ctypes.byref(mount), 0)
        return handle.raw

    def _fingerprint(self) -> dict[str, Any]:
        paths = [self.directory, self.place.packages]
        paths += [each for path in paths for each in path.rglob("*")]
        return {str(path): _state(path) for path in paths}


def project() -> str:
    """Where the service was checked out, or whatever its package lies in."""
    assert service.__file__ is not None
    return str(Path(service.__file__).parents[1])


def _state(path: Path) -> Any:
    try:
        found = path.lstat()
        attributes = sorted(os.listxattr(path, follow_symlinks=False))
    except OSError:
        return None
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return found.st_ino, found.st_mode, found.st_uid, found.st_gid, found.st_nlink, found.st_size, times, attributes


def _swap_space() -> bytes:
    """What mkswap(8) writes."""
    page = os.sysconf("SC_PAGE_SIZE")
    head = bytes(1024) + struct.pack("=III", 1, SWAP_PAGES - 1, 0)
    return (head + bytes(page - 10 - len(head)) + b"SWAPSPACE2") + bytes(page * (SWAP_PAGES - 1))
