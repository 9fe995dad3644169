"""Processes: forked, executed, and left behind."""

import ctypes
import glob
import mmap
import multiprocessing.popen_fork
import os
import platform
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from attacks import calls, machine
from attacks.attack import attack
from attacks.judges import claimed, executed, made

CLONE_PARENT = 0x8000
AT_EMPTY_PATH = 0x1000
LINKER = [*glob.glob("/lib64/ld-linux-*"), *glob.glob("/lib/ld-linux-*"), *glob.glob("/lib/ld-musl-*")][0]


def answers(pid: int, told: int, tell: int) -> bool:
    """Both sides go on here: the one that was forked says so over the pipe, by its own pid, and ends."""
    if pid == 0:
        os.write(tell, b"%d" % os.getpid())
        os._exit(0)
    return int(os.read(told, 20)) != os.getpid()


def printing(world: Any) -> str:
    return f"print('executed:' + {world.word!r}[::-1])"


@attack(claimed)
def forks(world: Any) -> Any:
    pipe = os.pipe()
    return answers(os.fork(), *pipe)


@attack(claimed, impossible_here=lambda: "" if calls.exists("fork") else "there is no fork call here")
def forks_past_libc(world: Any) -> Any:
    pipe = os.pipe()
    return answers(calls.call("fork"), *pipe)


@attack(claimed)
def clones_itself(world: Any) -> Any:
    pipe = os.pipe()
    return answers(calls.call("clone", signal.SIGCHLD, 0, 0, 0, 0), *pipe)


@attack(claimed)
def clones_itself_with_upper_flags(world: Any) -> Any:
    """A filter that looks at all 64 bits of what the kernel takes as 32 could take these for others."""
    pipe = os.pipe()
    return answers(calls.call("clone", 0x7FFF << 32 | signal.SIGCHLD, 0, 0, 0, 0), *pipe)


@attack(claimed)
def clones_a_sibling(world: Any) -> Any:
    pipe = os.pipe()
    return answers(calls.call("clone", CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0), *pipe)


@attack(claimed, impossible_here=machine.system_call("clone3"))
def clones_itself_by_clone3(world: Any) -> Any:
    pipe = os.pipe()
    arguments = struct.pack("=8Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    return answers(calls.call("clone3", arguments, len(arguments)), *pipe)


@attack(executed)
def starts_a_program(world: Any) -> Any:
    return subprocess.run([world.python, "-I", "-S", "-c", printing(world)], capture_output=True, check=False).stdout


@attack(executed, impossible_here=machine.readable("/bin/sh"))
def starts_a_shell(world: Any) -> Any:
    return os.popen(f"printf 'executed:%s' {world.word[::-1]}").read()


@attack(executed)
def spawns_a_program(world: Any) -> Any:
    arguments = [world.python, "-I", "-S", "-c", printing(world)]
    os.waitpid(os.posix_spawn(world.python, arguments, {}), 0)


@attack(executed)
def becomes_another_program(world: Any) -> Any:
    os.execv(world.python, [world.python, "-I", "-S", "-c", printing(world)])


@attack(executed)
def becomes_another_program_by_its_descriptor(world: Any) -> Any:
    program = os.open(world.python, os.O_PATH)
    arguments = [b"python", b"-I", b"-S", b"-c", printing(world).encode()]
    argv = (ctypes.c_char_p * 6)(*arguments, None)
    environment = (ctypes.c_char_p * 2)(f"PYTHONHOME={sys.base_prefix}".encode(), None)
    calls.call("execveat", program, "", argv, environment, AT_EMPTY_PATH)


@attack(executed, impossible_here=machine.needs(machine.system_call("memfd_create"), machine.readable("/bin/sh")))
def becomes_a_program_that_lies_in_memory_alone(world: Any) -> Any:
    program = calls.call("memfd_create", "program", 0)
    os.write(program, f"#!/bin/sh\nprintf 'executed:%s' {world.word[::-1]}\n".encode())
    argv = (ctypes.c_char_p * 2)(b"program", None)
    calls.call("execveat", program, "", argv, (ctypes.c_char_p * 1)(None), AT_EMPTY_PATH)


@attack(executed)
def loads_a_program_by_the_dynamic_linker(world: Any) -> Any:
    """The linker reads the program as data: nothing of it needs to be executable."""
    os.execv(LINKER, [LINKER, world.python, "-I", "-S", "-c", printing(world)])


@attack(claimed)
def forks_from_a_thread(world: Any) -> Any:
    forked: list[bool] = []
    pipe = os.pipe()
    thread = threading.Thread(target=lambda: forked.append(answers(os.fork(), *pipe)))
    thread.start()
    thread.join()
    return forked[0]


@attack(claimed)
def starts_workers_of_multiprocessing(world: Any) -> Any:
    context = multiprocessing.get_context("fork")
    pipe = os.pipe()
    context.Process(target=os.write, args=(pipe[1], b"hello")).start()
    return os.read(pipe[0], 10) == b"hello"


@attack(claimed)
def forks_twenty_processes_that_stay(world: Any) -> Any:
    started = 0
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            time.sleep(5)
            os._exit(0)
        started += 1
    return started == 20


@attack(made("temporary"), contained="the zygote kills in every tier whatever a child leaves behind")
def outlives_its_job(world: Any) -> Any:
    for _ in range(2):
        if os.fork() != 0:
            os._exit(0)
        os.setsid()
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    time.sleep(2)
    with open(world.temporary, "w") as file:
        file.write("still here")


def i386() -> str:
    """Asked in a process of its own, which a kernel without them kills."""
    if platform.machine() != "x86_64":
        return "this kind of processor has no i386 calls"
    getpid = "from attacks.processes import interrupt; raise SystemExit(interrupt(20) <= 0)"
    here = str(Path(__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", getpid], cwd=here, capture_output=True, check=False)
    return "this kernel takes no i386 calls" if done.returncode else ""


def interrupt(number: int, first: int = 0, second: int = 0) -> int:
    """A system call by int 0x80, which has i386's numbers. No Python wraps it, so it is written here byte by byte."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # push rbx; mov eax, edi; mov ebx, esi; mov ecx, edx; xor edx, edx; int 0x80; pop rbx; ret
    code.write(bytes.fromhex("53 89f8 89f3 89d1 31d2 cd80 5b c3"))
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int)
    return int(function(ctypes.addressof(ctypes.c_char.from_buffer(code)))(number, first, second))


@attack(claimed, impossible_here=i386)
def forks_by_an_i386_system_call(world: Any) -> Any:
    pipe = os.pipe()
    return answers(interrupt(2), *pipe)


def x32() -> str:
    if platform.machine() != "x86_64":
        return "this kind of processor has no x32 calls"
    try:
        calls.numbered(0x40000000 | 39)
    except OSError as error:
        return f"this kernel takes no x32 calls: {error}"
    return ""


@attack(claimed, impossible_here=x32)
def forks_by_an_x32_system_call(world: Any) -> Any:
    pipe = os.pipe()
    return answers(calls.numbered(0x40000000 | 57), *pipe)
