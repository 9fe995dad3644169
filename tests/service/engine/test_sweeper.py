"""The service sweeps by itself, if it is told how often."""

from service.domain.retention import RetentionRules
from service.engine.sweeper import Sweeper
from service.storage.database import Store
from tests.conftest import keep, wait_until


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


def test_without_a_time_it_never_sweeps(store: Store) -> None:
    sweeper = Sweeper(store, RetentionRules(files_s=0), every_s=None)
    left = keep(store.blobs, b"left")
    sweeper.start()
    sweeper.stop()

    assert store.blobs.holds(left.digest)
