"""Stopping: no exception is raised into torch while it asks a symbol for its size."""

import signal
from collections.abc import Iterator

import pytest
import torch

from tracehouse.check.prove.stopping import stop_between_operators, stop_if_late


class Stopped(Exception):
    pass


@pytest.fixture
def met() -> Iterator[list[str]]:
    """What came, in its order; an alarm stops what it meets."""
    met: list[str] = []

    def stop(*_: object) -> None:
        met.append("stopped")
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    yield met
    signal.signal(signal.SIGALRM, before)


def alarmed_in_torch(met: list[str]) -> None:
    """The alarm comes while a line of torch's own runs."""
    call = compile("raise_signal(SIGALRM)", torch.__file__, "exec")
    exec(call, {"raise_signal": signal.raise_signal, "SIGALRM": signal.SIGALRM})
    met.append("went on")


def test_an_alarm_in_torch_is_put_off_to_the_next_operator(met: list[str]) -> None:
    with pytest.raises(Stopped), stop_between_operators():
        run(met)
    assert met == ["went on", "stopped"]


def run(met: list[str]) -> None:
    alarmed_in_torch(met)
    stop_if_late()
    met.append("not stopped")


def test_an_alarm_in_the_models_code_stops_at_once(met: list[str]) -> None:
    with pytest.raises(Stopped), stop_between_operators():
        signal.raise_signal(signal.SIGALRM)
    assert met == ["stopped"]
