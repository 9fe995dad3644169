"""Stopping: no exception is raised into what torch asks of a symbol."""

import signal
from collections.abc import Iterator

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from workers.tracing.checks.prove.stopping import stopped_beside_symbols


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


def symbol() -> torch.SymInt:
    return ShapeEnv().create_unbacked_symint()


def test_an_alarm_while_a_symbol_is_asked_comes_after_it(met: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    size = symbol()
    whole = type(size.node).add

    def alarmed(node: object, other: object) -> object:
        signal.raise_signal(signal.SIGALRM)
        met.append("asked")
        return whole(node, other)

    monkeypatch.setattr(type(size.node), "add", alarmed)

    @stopped_beside_symbols()
    def run() -> None:
        _ = size + 1
        signal.pause()

    with pytest.raises(Stopped):
        run()
    assert met == ["asked", "stopped"]


def test_an_alarm_elsewhere_stops_at_once(met: list[str]) -> None:
    with pytest.raises(Stopped), stopped_beside_symbols():
        signal.raise_signal(signal.SIGALRM)
    assert met == ["stopped"]
