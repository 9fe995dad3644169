"""Environments and memory of others: the service, the zygote that it was forked from, and a sibling."""

import ctypes
import os
import struct
from pathlib import Path
from typing import Any

from attacks import calls, machine
from attacks.attack import attack
from attacks.judges import claimed, harmed, leaked

# In the zygote too, at the same address: a process and what was forked from it share the layout.
HOSTAGE = ctypes.create_string_buffer(b"the zygote's own", 32)
PTRACE_PEEKDATA, PTRACE_ATTACH, PTRACE_DETACH, PTRACE_SEIZE = 2, 16, 17, 0x4206


def vectors(address: int, size: int) -> tuple[Any, Any, Any]:
    """A buffer of ours, and both sides of a copy: it, and that much of another process."""
    ours = ctypes.create_string_buffer(size)
    return ours, struct.pack("@PN", ctypes.addressof(ours), size), struct.pack("@PN", address, size)


def read(pid: int, address: int, size: int) -> bytes:
    ours, local, remote = vectors(address, size)
    calls.call("process_vm_readv", pid, local, 1, remote, 1, 0)
    return bytes(ours.raw)


def write(pid: int, address: int, data: bytes) -> None:
    ours, local, remote = vectors(address, len(data))
    ours.raw = data
    calls.call("process_vm_writev", pid, local, 1, remote, 1, 0)


def through_proc(pid: int, address: int, size: int) -> bytes:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(size)


@attack(leaked)
def reads_the_service_s_environment(world: Any) -> Any:
    return Path(f"/proc/{world.victim}/environ").read_bytes()


@attack(leaked)
def reads_the_environment_of_every_process(world: Any) -> Any:
    seen = b""
    for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
        try:
            seen += Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
    return seen


@attack(leaked, impossible_here=machine.system_call("process_vm_readv"))
def reads_the_service_s_memory_by_a_system_call(world: Any) -> Any:
    return read(world.victim, world.address, world.size)


@attack(leaked)
def reads_the_service_s_memory_through_proc(world: Any) -> Any:
    return through_proc(world.victim, world.address, world.size)


@attack(leaked, impossible_here=machine.system_call("ptrace"))
def reads_the_service_s_memory_by_tracing_it(world: Any) -> Any:
    calls.call("ptrace", PTRACE_ATTACH, world.victim, 0, 0)
    os.waitpid(world.victim, 0x40000000)
    words = []
    for address in range(world.address, world.address + world.size, 8):
        word = ctypes.c_long()
        calls.call("ptrace", PTRACE_PEEKDATA, world.victim, address, ctypes.byref(word))
        words.append(struct.pack("=q", word.value))
    calls.call("ptrace", PTRACE_DETACH, world.victim, 0, 0)
    return b"".join(words)[: world.size]


@attack(harmed, impossible_here=machine.system_call("process_vm_writev"))
def writes_to_the_service_s_memory_by_a_system_call(world: Any) -> Any:
    write(world.victim, world.address, b"was here")


@attack(harmed)
def writes_to_the_service_s_memory_through_proc(world: Any) -> Any:
    with open(f"/proc/{world.victim}/mem", "r+b", buffering=0) as memory:
        memory.seek(world.address)
        memory.write(b"was here")


@attack(claimed)
def reads_where_the_service_s_memory_lies(world: Any) -> Any:
    return "[stack]" in Path(f"/proc/{world.victim}/maps").read_text()


@attack(
    claimed,
    impossible_here=machine.needs(machine.system_call("process_vm_readv"), machine.capability("SYS_PTRACE")),
)
def reads_the_zygote_s_memory_by_a_system_call(world: Any) -> Any:
    return read(os.getppid(), ctypes.addressof(HOSTAGE), 16) == b"the zygote's own"


@attack(claimed, impossible_here=machine.capability("SYS_PTRACE"))
def reads_the_zygote_s_memory_through_proc(world: Any) -> Any:
    return through_proc(os.getppid(), ctypes.addressof(HOSTAGE), 16) == b"the zygote's own"


@attack(
    claimed,
    impossible_here=machine.needs(machine.system_call("process_vm_writev"), machine.capability("SYS_PTRACE")),
)
def writes_to_the_zygote_s_memory(world: Any) -> Any:
    zygote, address = os.getppid(), ctypes.addressof(HOSTAGE)
    write(zygote, address, b"was here")
    worked = read(zygote, address, 8) == b"was here"
    write(zygote, address, HOSTAGE.raw[:8])
    return worked


@attack(leaked, sibling=True, impossible_here=machine.capability("SYS_PTRACE"))
def reads_a_sibling_s_memory_by_a_system_call(world: Any) -> Any:
    return read(world.sibling, ctypes.addressof(HOSTAGE), ctypes.sizeof(HOSTAGE))


@attack(leaked, sibling=True, impossible_here=machine.capability("SYS_PTRACE"))
def reads_a_sibling_s_memory_through_proc(world: Any) -> Any:
    return through_proc(world.sibling, ctypes.addressof(HOSTAGE), ctypes.sizeof(HOSTAGE))
