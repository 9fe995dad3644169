"""Time limits inside one another, and beside an alarm of the caller's."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import PATIENCE_S
from tracehouse.check import time_limit as time_limit_module
from tracehouse.check.time_limit import TooSlow, processor_time_limit, time_limit


class Clock:
    """The clock of the time limits. It stands still, so that alarms ring where a test says, on a busy machine too."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.stood_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def read(self) -> float:
        return self.now_s - self.stood_s

    def stand_still(self, seconds: float) -> None:
        self.now_s += seconds
        self.stood_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    standing = Clock()
    monkeypatch.setattr(time_limit_module, "CLOCK", standing)
    return standing


def loop() -> None:
    while True:
        pass


def test_a_loop_is_stopped_and_the_error_says_when() -> None:
    with pytest.raises(TooSlow, match=r"within 0\.05 s"), time_limit(0.05):
        loop()


def test_a_body_that_catches_the_error_and_goes_on_is_stopped_all_the_same() -> None:
    with pytest.raises(TooSlow), time_limit(0.05):
        loop_and_fall_back()


def test_a_body_that_catches_the_error_and_ends_has_not_ended_in_time() -> None:
    """What it answers then is of other code than without a limit."""
    with pytest.raises(TooSlow, match=r"within 0\.05 s"), time_limit(0.05), suppress(TooSlow):
        loop()


def test_another_error_that_torch_makes_of_it_is_the_same() -> None:
    def loop_in_torch() -> None:
        try:
            loop()
        except TooSlow:
            raise RuntimeError("Unable to cast 1 to Tensor") from None

    with pytest.raises(TooSlow) as raised, time_limit(0.05):
        loop_in_torch()

    assert "Unable to cast" in str(raised.value.__cause__)


class Tidying:
    """A context whose end, or beginning, takes until after the limit."""

    def __init__(self, meanwhile: Callable[[], None], where: str) -> None:
        self.meanwhile = meanwhile
        self.where = where
        self.ended: list[str] = []

    def __enter__(self) -> None:
        self._take_long("__enter__")

    def __exit__(self, *_: object) -> None:
        self._take_long("__exit__")

    def _take_long(self, where: str) -> None:
        if where == self.where:
            self.meanwhile()
        self.ended.append(where)


@pytest.mark.parametrize("where", ["__enter__", "__exit__"])
def test_a_context_is_not_stopped_in_the_middle_of_its_beginning_or_end(clock: Clock, where: str) -> None:
    """It would leave a mode of torch, or a patched function, behind."""

    def ring() -> None:
        clock.now_s = 7200.0
        signal.raise_signal(signal.SIGALRM)

    tidying = Tidying(ring, where)
    with pytest.raises(TooSlow), time_limit(3600):
        enter_and_loop(tidying)

    assert tidying.ended == ["__enter__", "__exit__"]


def test_what_tidies_up_after_the_error_is_not_stopped_by_the_next_one(clock: Clock) -> None:
    tidied: list[bool] = []

    def tidy_up() -> None:
        for _ in range(3):
            clock.now_s += 1.0
            signal.raise_signal(signal.SIGALRM)
        tidied.append(True)

    with pytest.raises(TooSlow), time_limit(3600):
        loop_from(clock, 7200.0, finally_=tidy_up)

    assert tidied == [True]


def test_a_context_whose_end_never_comes_is_stopped(clock: Clock) -> None:
    def never_end() -> None:
        while True:
            clock.now_s += 3600.0
            signal.raise_signal(signal.SIGALRM)

    with pytest.raises(TooSlow), time_limit(3600):
        enter_and_loop(Tidying(never_end, "__exit__"))


def enter_and_loop(tidying: Tidying) -> None:
    with tidying:
        pass
    loop()


def test_a_limit_stops_what_has_a_longer_limit_inside() -> None:
    with pytest.raises(TooSlow, match=r"within 0\.05 s"), time_limit(0.05), time_limit(3600):
        loop()


def test_a_limit_still_stops_after_a_shorter_one_inside_has(clock: Clock) -> None:
    with pytest.raises(TooSlow, match="within 800 s"), time_limit(800):
        loop_after_a_limit(clock)


def test_time_in_which_the_process_stands_still_does_not_count(clock: Clock) -> None:
    with time_limit(3600), time_limit(7200):
        stand_still(clock, 5000)
    with pytest.raises(TooSlow), time_limit(3600):
        loop_from(clock, 5000 + 3601)


def test_what_stands_still_again_and_again_is_stopped(clock: Clock) -> None:
    with pytest.raises(TooSlow), time_limit(3600):
        stand_still(clock, 5000, times=10)


def test_a_process_that_is_stopped_and_goes_on_has_its_time() -> None:
    said = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, check=True)

    assert said.stdout.split() == ["went", "on", "stopped"]


# A limit of 2 s; the process stands still for 5.
STOPPED = """
import os, signal, subprocess, sys
from tracehouse.check.time_limit import TooSlow, time_limit

with time_limit(2):
    subprocess.Popen(["sh", "-c", f"sleep 5; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)
    for _ in range(1000):
        pass
    print("went on", flush=True)
try:
    with time_limit(2):
        while True:
            pass
except TooSlow:
    print("stopped")
"""


def test_processor_time_is_no_time_that_the_body_waits() -> None:
    with processor_time_limit(0.1, patience=36000):
        time.sleep(0.3)
    with pytest.raises(TooSlow, match=r"within 0\.1 s of processor time"), processor_time_limit(0.1, patience=36000):
        loop()


def test_a_body_that_only_waits_is_stopped_in_the_end() -> None:
    with pytest.raises(TooSlow), processor_time_limit(0.05, patience=2):
        time.sleep(3600)


KIND = """
class Meta(type):
    def __instancecheck__(cls, value):
        value()
        meanwhile()
        return False

class Kind(metaclass=Meta):
    pass
"""


def kind_defined_in(file: Path, meanwhile: Callable[[], None]) -> Any:
    """A class that calls `meanwhile` before it says what is of its kind, as if the file had it."""
    namespace: dict[str, Any] = {"meanwhile": meanwhile, "__name__": "kinds"}
    exec(compile(KIND, str(file), "exec"), namespace)
    return namespace["Kind"]


TORCHS_FILE = Path(torch.__file__).parent / "_opaque_base.py"


def test_torch_is_not_stopped_while_it_is_asked_of_what_kind_an_object_is(clock: Clock) -> None:
    """From C++ it takes the error for a yes, and may end the process."""
    kind = kind_defined_in(TORCHS_FILE, partial(signal.raise_signal, signal.SIGALRM))
    said: list[bool] = []
    with pytest.raises(TooSlow), time_limit(3600):
        ask_and_loop(partial(setattr, clock, "now_s", 7200.0), kind, said)

    assert said == [False]


@pytest.mark.parametrize(
    ("file", "asked", "meanwhile"),
    [
        pytest.param(TORCHS_FILE, loop, lambda: None, id="its code is asked by torch"),
        pytest.param(Path("net.py"), lambda: None, loop, id="its code is asked"),
    ],
)
def test_a_model_that_answers_of_what_kind_an_object_is_without_end_is_stopped(
    file: Path, asked: Callable[[], None], meanwhile: Callable[[], None]
) -> None:
    with pytest.raises(TooSlow), time_limit(0.05):
        isinstance(asked, kind_defined_in(file, meanwhile))


def ask_and_loop(asked: Callable[[], None], kind: type, said: list[bool]) -> None:
    said.append(isinstance(asked, kind))
    loop()


def loop_and_fall_back() -> None:
    try:
        loop()
    except:  # noqa: E722 - as models have it, to go on with other code
        time.sleep(PATIENCE_S)


def loop_after_a_limit(clock: Clock) -> None:
    with pytest.raises(TooSlow, match="within 400 s"), time_limit(400):
        loop_from(clock, 401.0)
    loop_from(clock, 801.0)


def stand_still(clock: Clock, seconds: float, *, times: int = 1) -> None:
    for _ in range(times):
        clock.stand_still(seconds)
        signal.raise_signal(signal.SIGALRM)


def loop_from(clock: Clock, now_s: float, *, finally_: Callable[[], None] = lambda: None) -> None:
    clock.now_s = now_s
    try:
        signal.raise_signal(signal.SIGALRM)
        loop()
    finally:
        finally_()


def test_an_alarm_of_the_callers_is_set_afterwards_as_it_was() -> None:
    def handle(*_: object) -> None:
        pass

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 3600)
    try:
        began = time.monotonic()
        with pytest.raises(TooSlow), time_limit(0.05):
            loop()
        left_s, _ = signal.getitimer(signal.ITIMER_REAL)

        assert 3600 - left_s <= time.monotonic() - began + 1
        assert 0 < left_s < 3600
        assert signal.getsignal(signal.SIGALRM) is handle
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
