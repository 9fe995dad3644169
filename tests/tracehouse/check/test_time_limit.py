"""Time limits inside one another, and beside an alarm of the caller's."""

import signal
import time

import pytest

from tests.conftest import PATIENCE_S
from tracehouse.check.time_limit import TooSlow, processor_time_limit, time_limit


def loop() -> None:
    while True:
        pass


def test_a_loop_is_stopped_and_the_error_says_when() -> None:
    with pytest.raises(TooSlow, match=r"within 0\.05 s"), time_limit(0.05):
        loop()


def test_a_body_that_catches_the_error_and_goes_on_is_stopped_all_the_same() -> None:
    with pytest.raises(TooSlow), time_limit(0.05):
        loop_and_fall_back()


def test_a_limit_stops_what_has_a_longer_limit_inside() -> None:
    with pytest.raises(TooSlow, match=r"within 0\.05 s"), time_limit(0.05), time_limit(3600):
        loop()


def test_a_limit_still_stops_after_a_shorter_one_inside_has() -> None:
    with pytest.raises(TooSlow, match=r"within 0\.1 s"), time_limit(0.1):
        loop_after_a_limit()


def test_processor_time_is_no_time_that_the_body_waits() -> None:
    with processor_time_limit(0.1, patience=36000):
        time.sleep(0.3)
    with pytest.raises(TooSlow, match=r"within 0\.1 s of processor time"), processor_time_limit(0.1, patience=36000):
        loop()


def test_a_body_that_only_waits_is_stopped_in_the_end() -> None:
    with pytest.raises(TooSlow), processor_time_limit(0.05, patience=2):
        time.sleep(3600)


def loop_and_fall_back() -> None:
    try:
        loop()
    except:  # noqa: E722 - as models have it, to go on with other code
        time.sleep(PATIENCE_S)


def loop_after_a_limit() -> None:
    with pytest.raises(TooSlow, match=r"within 0\.05 s"), time_limit(0.05):
        loop()
    loop()


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
