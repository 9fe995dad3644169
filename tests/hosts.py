"""Hosts of a network of their own, as namespaces of this machine. Each can be cut off, as if its cable were pulled.

Nothing that is sent to or from such a host arrives, and nobody is told so: no connection is closed or refused. Only
root can make them.
"""

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import which
from typing import Self, TypeVar

_NAMESPACES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000

T = TypeVar("T")


def why_there_are_none() -> str | None:
    """Why none can be made on this machine; None if they can."""
    if os.geteuid() != 0:
        return "only root can make them"
    if not which("ip") or not which("nsenter"):
        return "ip and nsenter are missing: they are in iproute2 and util-linux"
    try:
        with _namespace(f"th{os.getpid()}-probe") as namespace:
            _ip("-n", namespace, "link", "add", "switch", "type", "bridge")
    except subprocess.CalledProcessError as error:
        return f"no network can be made: {error.stderr.strip()}"
    return None


class Host:
    """One host. What it is asked in `ask` comes from itself, so that it can be asked while it is cut off."""

    def __init__(self, name: str, address: str, network: str, directory: Path) -> None:
        self.address = address
        self._name = f"{network}-{name}"
        self._network = network
        self._cable = f"to-{name}"
        self._directory = directory
        self._thread = ThreadPoolExecutor(1, initializer=self._enter)

    @classmethod
    @contextmanager
    def open(cls, name: str, address: str, network: str, directory: Path) -> Iterator[Self]:
        host = cls(name, address, network, directory)
        with _namespace(host._name):
            _ip("-n", network, "link", "add", host._cable, "type", "veth", "peer", "name", "eth0", "netns", host._name)
            _ip("-n", network, "link", "set", host._cable, "master", "switch", "up")
            _ip("-n", host._name, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                _ip("-n", host._name, "link", "set", device, "up")
            try:
                yield host
            finally:
                host._thread.shutdown()

    def program(self, program: Path) -> Path:
        """Return what runs the program on this host."""
        script = self._directory / f"{self._name}-{program.name}"
        script.write_text(f'#!/bin/sh\nexec nsenter --net={_NAMESPACES / self._name} {program} "$@"\n')
        script.chmod(0o755)
        return script

    def ask(self, call: Callable[[], T]) -> T:
        """Return what the call gives, which is made from this host."""
        return self._thread.submit(call).result()

    def cut(self) -> None:
        _ip("-n", self._network, "link", "set", self._cable, "nomaster")

    def mend(self) -> None:
        _ip("-n", self._network, "link", "set", self._cable, "master", "switch")

    def _enter(self) -> None:
        """Have this thread's new sockets be the host's."""
        with (_NAMESPACES / self._name).open() as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "the network of the host cannot be entered")


class Network:
    """This machine and hosts beside it. `address` is this machine's.

    What connects them is in a namespace of its own, where no rules of this machine hold, such as those of Docker.
    """

    def __init__(self, name: str, subnet: str, directory: Path, opened: ExitStack) -> None:
        self.address = f"{subnet}.1"
        self._name = name
        self._subnet = subnet
        self._directory = directory
        self._opened = opened
        self._hosts = 1

    @classmethod
    @contextmanager
    def open(cls, directory: Path) -> Iterator[Self]:
        number = os.getpid()
        subnet = f"10.{200 + number % 50}.{number // 50 % 250}"
        with _namespace(f"th{number}") as name, ExitStack() as opened:
            _ip("-n", name, "link", "add", "switch", "type", "bridge")
            _ip("-n", name, "link", "set", "switch", "up")
            _ip("link", "add", name, "type", "veth", "peer", "name", "to-us", "netns", name)
            opened.callback(_ip, "link", "delete", name)
            _ip("-n", name, "link", "set", "to-us", "master", "switch", "up")
            _ip("address", "add", f"{subnet}.1/24", "dev", name)
            _ip("link", "set", name, "up")
            yield cls(name, subnet, directory, opened)

    def add(self, name: str) -> Host:
        """Return a new host."""
        self._hosts += 1
        host = Host.open(name, f"{self._subnet}.{self._hosts}", self._name, self._directory)
        return self._opened.enter_context(host)


@contextmanager
def _namespace(name: str) -> Iterator[str]:
    _ip("netns", "add", name)
    try:
        yield name
    finally:
        _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
