"""Huge pages: what a process has of its own lies in them as it lay before, and so does what its children see."""

import subprocess
import sys

import pytest

from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote

FILLED = 64 * 2**20
# Fills memory, moves it, and compares it; a child changes what it sees of it. It prints what is huge, in KiB.
MOVES = f"""
import os, re
from service.sandbox import huge_pages

filled = bytearray(os.urandom(2**20) * ({FILLED} // 2**20))
before = bytes(filled)
made = huge_pages.collapse()
huge_kib = int(re.search(r"AnonHugePages: +([0-9]+)", open("/proc/self/smaps_rollup").read())[1])
child = os.fork()
if child == 0:
    filled[:] = bytes(len(filled))
    os._exit(0 if not any(filled[::4096]) else 1)
assert os.waitpid(child, 0)[1] == 0
assert filled == before
assert huge_kib == made * 2048, (huge_kib, made)
print(huge_kib)
"""


def huge_kib() -> int:
    moved = subprocess.run([sys.executable, "-c", MOVES], capture_output=True, text=True, check=False)
    assert moved.returncode == 0, moved.stderr
    return int(moved.stdout)


def test_memory_is_the_same_in_huge_pages_and_a_child_changes_its_own() -> None:
    if not (moved_kib := huge_kib()):
        pytest.skip("this kernel makes no huge pages when it is asked to: Linux does from 6.1 on")
    assert moved_kib * 1024 > FILLED / 2


@pytest.mark.parametrize("forks_often", [True, False])
def test_what_a_zygote_that_forks_often_imported_is_in_huge_pages(tmp_path, limits, until, forks_often: bool) -> None:
    (tmp_path / "filled.py").write_text(
        f"import re\nfilled = bytearray(b'x' * {FILLED})\n"
        "def main(channel, files):\n"
        "    [kib] = re.findall('AnonHugePages: +([0-9]+)', open('/proc/self/smaps_rollup').read())\n"
        "    channel.send({'huge_kib': int(kib), 'is_whole': filled == b'x' * len(filled)})"
    )
    with (
        Zygote(["filled"], path=[tmp_path], tier=Tier.NONE, forks_often=forks_often) as zygote,
        zygote.fork("filled", limits) as child,
    ):
        seen, _ = child.channel.receive(until)
        assert seen == {"huge_kib": seen["huge_kib"], "is_whole": True}
        assert (seen["huge_kib"] > 0) is (forks_often and huge_kib() > 0)
