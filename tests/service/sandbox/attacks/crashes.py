"""Crashes: of a child alone, whatever it does to itself."""

import ctypes
import faulthandler
import os
import signal
import sys
from typing import Any

from attacks.attack import attack
from attacks.judges import hurt

ALONE = "a process that crashes takes nobody along, jailed or not"


@attack(hurt, contained=ALONE)
def crashes_by_reading_nothing(world: Any) -> Any:
    ctypes.string_at(0)


@attack(hurt, contained=ALONE)
def crashes_by_writing_to_code(world: Any) -> Any:
    ctypes.memset(ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value or 0, 0, 100)


@attack(hurt, contained=ALONE)
def aborts(world: Any) -> Any:
    faulthandler.disable()
    os.abort()


@attack(hurt, contained=ALONE)
def overflows_its_stack(world: Any) -> Any:
    sys.setrecursionlimit(2**31 - 1)

    def call_again() -> None:
        by_c()

    by_c = ctypes.CFUNCTYPE(None)(call_again)  # C's frames are on the stack that Python's no longer take
    by_c()


@attack(hurt, contained=ALONE)
def kills_itself(world: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


@attack(hurt, contained=ALONE, wall_s=0.3)
def stops_itself(world: Any) -> Any:
    os.kill(os.getpid(), signal.SIGSTOP)


@attack(hurt, contained=ALONE)
def dies_of_every_other_signal(world: Any) -> Any:
    for number in sorted(signal.valid_signals() - {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}):
        os.kill(os.getpid(), number)


@attack(hurt, contained=ALONE)
def ends_in_the_middle_of_what_it_says(world: Any) -> Any:
    os.write(world.channel_descriptor, b"\xff\x00\x00")
    os._exit(0)


@attack(hurt, contained=ALONE)
def closes_its_channel(world: Any) -> Any:
    os.close(world.channel_descriptor)


@attack(hurt, contained=ALONE)
def closes_everything(world: Any) -> Any:
    os.closerange(0, 1024)


@attack(hurt, contained=ALONE, wall_s=0.3)
def says_nothing_and_hears_no_signal(world: Any) -> Any:
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        signal.pause()
