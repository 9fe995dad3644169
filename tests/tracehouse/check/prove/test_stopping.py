"""Stopping: no exception is raised into torch while it asks a symbol for its size."""

import signal
from collections.abc import Iterator

import pytest
import torch

from tracehouse.check.prove.stopping import stop_between_operators, stop_if_late


class Stopped(Exception):
    pass


@pytest.fixture
def events() -> Iterator[list[str]]:
    """The events in their order. An alarm raises Stopped."""
    events: list[str] = []

    def stop(*_: object) -> None:
        events.append("stopped")
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    yield events
    signal.signal(signal.SIGALRM, before)


def raise_alarm_in_torch(events: list[str]) -> None:
    """Raise the alarm while a line of torch's own code runs."""
    call = compile("raise_signal(SIGALRM)", torch.__file__, "exec")
    exec(call, {"raise_signal": signal.raise_signal, "SIGALRM": signal.SIGALRM})
    events.append("went on")


def test_an_alarm_in_torch_is_put_off_to_the_next_operator(events: list[str]) -> None:
    with pytest.raises(Stopped), stop_between_operators():
        run(events)
    assert events == ["went on", "stopped"]


def run(events: list[str]) -> None:
    raise_alarm_in_torch(events)
    stop_if_late()
    events.append("not stopped")


def test_an_alarm_in_the_models_code_stops_at_once(events: list[str]) -> None:
    with pytest.raises(Stopped), stop_between_operators():
        signal.raise_signal(signal.SIGALRM)
    assert events == ["stopped"]
