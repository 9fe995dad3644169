"""Judges: whether an attack worked, by what it did to the world."""

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attacks import calls, machine
from attacks.attack import Judge
from service.sandbox.child import Exit

_CUT_LINE_MAX_BYTES = 100  # the line that says how much of a log was cut


@dataclass
class Outcome:
    """What came out of a child, and what its parent suffered."""

    begun: bool = False  # else there was no attack
    returned: Any = None
    raised: str = ""
    said: bytes = b""  # all of it, over its channel and in its log
    log_bytes: int = 0  # that its parent shows
    body_bytes: int = 0
    header_bytes: int = 0
    exit: Exit | None = None
    harm: list[str] = field(default_factory=list)  # to the parent and to the zygote


def leaked(world: Any, outcome: Outcome) -> bool:
    """A secret came out."""
    return any(token.encode() in outcome.said for token in world.tokens)


def changed(world: Any, outcome: Outcome) -> bool:
    """A file or directory outside did, or one was made there."""
    return bool(world.changed())


def claimed(world: Any, outcome: Outcome) -> bool:
    """The kernel gave the child what it asked for, by the child's own word."""
    return outcome.returned is True


def connected(world: Any, outcome: Outcome) -> bool:
    """Somebody who listens was reached."""
    return bool(world.place.listeners.heard())


def harmed(world: Any, outcome: Outcome) -> bool:
    """The victim is dead, stopped, traced, slowed down or changed."""
    return bool(world.victim.harmed)


def executed(world: Any, outcome: Outcome) -> bool:
    """Another program ran, and printed what it was to."""
    return executed_word(world.word) in outcome.said


def executed_word(word: str) -> bytes:
    return b"executed:" + word[::-1].encode()


def hurt(world: Any, outcome: Outcome) -> bool:
    """The parent or the zygote suffered."""
    return bool(outcome.harm)


def zygote_died(world: Any, outcome: Outcome) -> bool:
    return outcome.exit is not None and outcome.exit.with_zygote


def told(text: str) -> Judge:
    def judge(world: Any, outcome: Outcome) -> bool:
        return text.encode() in outcome.said

    return judge


def made(target: str, name: str = "") -> Judge:
    """There is a file now; it is removed."""

    def judge(world: Any, outcome: Outcome) -> bool:
        path = Path(world.targets()[target], name.format(word=world.word)) if name else Path(world.targets()[target])
        there = os.path.lexists(path)
        if there:  # a read-only file system refuses even to remove what is not there
            path.unlink()
        return there

    return judge


def used_memory(mib: int) -> Judge:
    def judge(world: Any, outcome: Outcome) -> bool:
        return outcome.exit is not None and outcome.exit.maxrss_kib > mib * 1024

    return judge


def used_cpu(seconds: float) -> Judge:
    def judge(world: Any, outcome: Outcome) -> bool:
        return outcome.exit is not None and outcome.exit.cpu_s > seconds

    return judge


def filled(mib: int) -> Judge:
    def judge(world: Any, outcome: Outcome) -> bool:
        return bool(world.filled_mib() > mib)

    return judge


def log_over(kept: int) -> Judge:
    return lambda world, outcome: outcome.log_bytes > kept + _CUT_LINE_MAX_BYTES


def body_over(received: int) -> Judge:
    return lambda world, outcome: outcome.body_bytes > received


def header_over(received: int) -> Judge:
    return lambda world, outcome: outcome.header_bytes > received


def mounted(world: Any, outcome: Outcome) -> bool:
    nested = world.directory / "nested"
    there = nested.is_mount()
    if there:
        calls.call("umount2", str(nested), 2)
    return bool(there)


def swapped(world: Any, outcome: Outcome) -> bool:
    swap = str(world.directory / "swap")
    there = swap in Path("/proc/swaps").read_text()
    if there:
        calls.call("swapoff", swap)
    return there


def kept_by_system_v(get: str, control: str) -> Judge:
    """What the child made outlives it; it is removed."""

    def judge(world: Any, outcome: Outcome) -> bool:
        arguments = {"shmget": (0, 0), "semget": (0, 0), "msgget": (0,)}[get]
        with contextlib.suppress(OSError):
            identity = calls.call(get, world.key, *arguments)
            calls.call(control, identity, *((0, 0) if control == "semctl" else (0, None)))
            return True
        return False

    return judge


def queued(world: Any, outcome: Outcome) -> bool:
    """A POSIX message queue outlives the child; it is removed."""
    with contextlib.suppress(OSError):
        calls.call("mq_unlink", world.word)
        return True
    return False


def flagged(world: Any, outcome: Outcome) -> bool:
    """The file that the child was given has another flag of its file system: chattr(1)'s `d`."""
    return bool(machine.flags_of(world.directory / "given.bin") & 0x40)
