"""The service sweeps by itself, if it is told how often."""

import logging
from datetime import timedelta
from functools import partial

import pytest

from service.domain.retention import RetentionRules
from service.engine.sweeper import Sweeper
from service.storage import retention
from service.storage.database import Store
from tests.conftest import keep, wait_until


@pytest.fixture(autouse=True)
def _no_least_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are old a tick of the kernel's clock after they were written, so that no test waits for minutes."""
    monkeypatch.setattr(retention, "_LEAST_AGE", timedelta(milliseconds=20))


def test_it_sweeps_again_and_again(store: Store) -> None:
    sweeper = Sweeper(store, RetentionRules(files_s=0), every_s=0.01)
    sweeper.start()
    try:
        for word in (b"first", b"second"):
            left = keep(store.blobs, word)
            wait_until(lambda left=left: not store.blobs.holds(left.digest))
    finally:
        sweeper.stop()
    after = keep(store.blobs, b"after its end")

    assert store.blobs.holds(after.digest)


def test_it_goes_on_after_a_sweep_that_broke_off(store: Store, monkeypatch) -> None:
    broken = iter([True])
    sweep = store.retention.sweep

    def break_once(rules: RetentionRules) -> object:
        if next(broken, False):
            raise OSError("the disk is away")
        return sweep(rules)

    monkeypatch.setattr(store.retention, "sweep", break_once)
    left = keep(store.blobs, b"left")
    sweeper = Sweeper(store, RetentionRules(files_s=0), every_s=0.01)
    sweeper.start()
    try:
        wait_until(lambda: not store.blobs.holds(left.digest))
    finally:
        sweeper.stop()
    assert next(broken, False) is False


def test_files_that_others_are_storing_all_the_time_are_one_line_and_no_fault(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    holds = store.retention._holds
    monkeypatch.setattr(holds, "remove", partial(holds.remove, patience_s=0.05))
    sweeper = Sweeper(store, RetentionRules(), every_s=3600)
    with caplog.at_level(logging.INFO, "service.engine.sweeper"), holds.write():
        sweeper.start()
        wait_until(lambda: caplog.records)
        sweeper.stop()

    [line] = [record for record in caplog.records if record.name == "service.engine.sweeper"]
    assert (line.levelno, line.exc_info) == (logging.INFO, None)
    assert line.message.startswith("swept, but not all files")


def test_without_a_time_it_never_sweeps(store: Store) -> None:
    sweeper = Sweeper(store, RetentionRules(files_s=0), every_s=None)
    left = keep(store.blobs, b"left")
    sweeper.start()
    sweeper.stop()

    assert store.blobs.holds(left.digest)
