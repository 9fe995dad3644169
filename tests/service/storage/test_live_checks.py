"""What the live check found of versions, and the aliases that it moves back."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.domain.errors import AliasMoved, BlobMissing, NothingToMoveBackTo, VersionAliased, VersionIsDefault
from service.domain.live_check import LIVE_COUNTEREXAMPLES_MAX, LiveCheck, LiveCounterexample
from service.domain.model import Alias, Model, Moved
from service.domain.retention import RetentionRules
from service.storage import retention
from service.storage.database import Store
from service.storage.models import withdraw_from_versions
from tests.conftest import TENANT, counted_bytes, keep, stored_bytes
from tracehouse.tensors.tensor import Datatype, TensorSpec

Register = Callable[..., Any]
WRONG = LiveCheck(asked=1, different=1)


def counterexample(store: Store, content: bytes = b"PK arrays") -> LiveCounterexample:
    return LiveCounterexample(
        digest="sha256:" + "0" * 64,
        method="forward",
        inputs=[TensorSpec(name="x", datatype=Datatype.FP32, shape=(2,))],
        output="output",
        difference="the model gives 1.0 at [0], and the artifact 2.0",
        eager=1.0,
        artifact=2.0,
        arrays=keep(store.blobs, content),
        found_at=datetime.now(UTC),
    )


def checked(store: Store, version: int = 1) -> LiveCheck | None:
    return store.live_checks.find(TENANT, ["net"]).get(("net", version))


def prod(store: Store) -> Alias:
    [alias] = store.models.get(TENANT, "net").aliases
    return alias


@pytest.fixture
def guarded(store: Store, register: Register) -> Alias:
    """An alias that pointed at version 1, points at version 2, and is moved back after two wrong answers."""
    register("net")
    register("net")
    first = store.models.put_alias(TENANT, "net", "prod", 1, None)
    return store.models.put_alias(TENANT, "net", "prod", 2, first.etag, move_back_after=2)


def test_what_is_found_later_is_added(store: Store, register: Register) -> None:
    register("net")
    assert checked(store) is None

    store.live_checks.add(TENANT, "net", 1, LiveCheck(asked=3, equal=1, dropped=1, could_not_run=1, why="it draws"))
    store.live_checks.add(TENANT, "net", 1, LiveCheck(asked=2, equal=2))

    assert checked(store) == LiveCheck(asked=5, equal=3, dropped=1, could_not_run=1, why="it draws")
    assert store.live_checks.find("theirs", ["net"]) == {}


def test_the_first_counterexamples_are_kept_and_counted_as_stored(store: Store, register: Register) -> None:
    register("net")
    before = stored_bytes(store)
    found = [counterexample(store, b"%d" % number * 1000) for number in range(LIVE_COUNTEREXAMPLES_MAX + 1)]

    for one in found:
        store.live_checks.add(TENANT, "net", 1, WRONG.model_copy(update={"counterexamples": [one]}))

    kept = checked(store)
    assert kept is not None
    assert (kept.different, kept.counterexamples) == (len(found), found[:-1])
    assert stored_bytes(store) - before > sum(one.arrays.byte_size for one in kept.counterexamples)
    assert store.figures.read().stored_bytes == counted_bytes(store)
    store.models.delete(TENANT, "net")
    assert stored_bytes(store) == before


def test_a_sweep_keeps_counterexamples_until_their_version_is_deleted(
    store: Store, register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_LEAST_AGE", timedelta(seconds=-1))
    register("net")
    register("net")
    one = counterexample(store)
    store.live_checks.add(TENANT, "net", 1, WRONG.model_copy(update={"counterexamples": [one]}))

    store.retention.sweep(RetentionRules(files_s=0))
    with store.blobs.open(one.arrays.digest) as file:
        assert file.read() == b"PK arrays"

    store.models.delete_version(TENANT, "net", 1)
    store.retention.sweep(RetentionRules(files_s=0))
    with pytest.raises(BlobMissing):
        store.blobs.open(one.arrays.digest)


@pytest.mark.parametrize("missing", [("net", 7), ("other", 1)])
def test_nothing_is_kept_of_a_version_that_is_gone(store: Store, register: Register, missing: tuple[str, int]) -> None:
    register("net")

    assert store.live_checks.add(TENANT, *missing, WRONG) == []

    assert store.live_checks.find(TENANT, ["net", "other"]) == {}


def test_an_alias_is_moved_back_once(store: Store, guarded: Alias) -> None:
    assert store.live_checks.add(TENANT, "net", 2, WRONG) == []
    assert prod(store) == guarded

    assert store.live_checks.add(TENANT, "net", 2, WRONG) == [Moved(reference="net@prod", version=1)]

    moved = prod(store)
    assert (moved.version, moved.move_back_after, moved.move_back_to) == (1, None, None)
    assert moved.moved_back is not None
    assert (moved.moved_back.version, moved.moved_back.different) == (2, 2)
    assert store.live_checks.add(TENANT, "net", 2, WRONG) == []
    assert store.live_checks.add(TENANT, "net", 1, LiveCheck(asked=9, different=9)) == []
    assert prod(store) == moved
    with pytest.raises(AliasMoved):
        store.models.put_alias(TENANT, "net", "prod", 2, guarded.etag)
    actions = [
        (entry.action, entry.via, entry.subject, entry.details) for entry in store.audit_log.list(TENANT, 1).items
    ]
    assert actions == [("alias.move_back", "service", "net@prod", {"version": 1, "before": 2, "different": 2})]


def test_answers_from_before_the_alias_was_set_do_not_count(store: Store, guarded: Alias) -> None:
    store.live_checks.add(TENANT, "net", 2, WRONG)

    store.models.put_alias(TENANT, "net", "prod", 2, guarded.etag, move_back_after=2)

    assert store.live_checks.add(TENANT, "net", 2, WRONG) == []
    assert [one.version for one in store.live_checks.add(TENANT, "net", 2, WRONG)] == [1]


def test_an_alias_without_a_limit_stays(store: Store, guarded: Alias) -> None:
    store.models.put_alias(TENANT, "net", "prod", 2, guarded.etag)

    assert store.live_checks.add(TENANT, "net", 2, LiveCheck(asked=9, different=9)) == []
    assert prod(store).version == 2


def test_an_alias_is_not_moved_back_to_what_was_withdrawn(store: Store, guarded: Alias) -> None:
    digest = store.models.get(TENANT, "net").versions[0].artifacts["cpu"]
    with store._transactions.write() as connection:
        withdraw_from_versions(connection, TENANT, [digest], "f" * 32)

    assert store.live_checks.add(TENANT, "net", 2, LiveCheck(asked=9, different=9)) == []
    assert prod(store) == guarded


def test_what_an_alias_is_to_be_moved_back_to_is_not_deleted(store: Store, register: Register, guarded: Alias) -> None:
    with pytest.raises(VersionAliased):
        store.models.delete_version(TENANT, "net", 1)

    store.models.put_alias(TENANT, "net", "prod", 2, guarded.etag)
    store.models.delete_version(TENANT, "net", 1)

    assert [version.version for version in store.models.get(TENANT, "net").versions] == [2]


def test_an_alias_that_has_pointed_at_nothing_else_has_nothing_to_move_back_to(
    store: Store, register: Register
) -> None:
    register("net")

    with pytest.raises(NothingToMoveBackTo):
        store.models.put_alias(TENANT, "net", "prod", 1, None, move_back_after=1)

    made = store.models.put_alias(TENANT, "net", "prod", 1, None)
    with pytest.raises(NothingToMoveBackTo):
        store.models.put_alias(TENANT, "net", "prod", 1, made.etag, move_back_after=1)
    assert prod(store) == made


@pytest.fixture
def promoted(store: Store, register: Register) -> Model:
    """A model whose default version was 1 and is 2, until two answers are wrong."""
    register("net")
    register("net")
    store.models.promote(TENANT, "net", 1)
    store.models.promote(TENANT, "net", 2, move_back_after=2)
    return store.models.get(TENANT, "net")


def test_the_default_version_is_moved_back_once(store: Store, promoted: Model) -> None:
    assert (promoted.default_version, promoted.move_back_after, promoted.move_back_to) == (2, 2, 1)
    assert store.live_checks.add(TENANT, "net", 2, WRONG) == []

    assert store.live_checks.add(TENANT, "net", 2, WRONG) == [Moved(reference="net", version=1)]

    moved = store.models.get(TENANT, "net")
    assert (moved.default_version, moved.move_back_after, moved.move_back_to) == (1, None, None)
    assert moved.moved_back is not None
    assert (moved.moved_back.version, moved.moved_back.different) == (2, 2)
    assert store.live_checks.add(TENANT, "net", 2, WRONG) == []
    assert store.live_checks.add(TENANT, "net", 1, LiveCheck(asked=9, different=9)) == []
    assert store.models.get(TENANT, "net") == moved
    actions = [(one.action, one.via, one.subject, one.details) for one in store.audit_log.list(TENANT, 1).items]
    assert actions == [("model.move_back", "service", "net", {"version": 1, "before": 2, "different": 2})]


def test_both_the_default_and_an_alias_are_moved_back(store: Store, promoted: Model) -> None:
    first = store.models.put_alias(TENANT, "net", "prod", 1, None)
    store.models.put_alias(TENANT, "net", "prod", 2, first.etag, move_back_after=1)

    moved = store.live_checks.add(TENANT, "net", 2, LiveCheck(asked=2, different=2))

    assert [one.reference for one in moved] == ["net", "net@prod"]


def test_a_promotion_counts_anew_and_without_a_limit_ends_it(store: Store, promoted: Model) -> None:
    store.live_checks.add(TENANT, "net", 2, WRONG)
    store.models.promote(TENANT, "net", 2, move_back_after=2)
    assert store.models.get(TENANT, "net").move_back_to == 1
    assert store.live_checks.add(TENANT, "net", 2, WRONG) == []

    store.models.promote(TENANT, "net", 2)

    assert store.live_checks.add(TENANT, "net", 2, LiveCheck(asked=9, different=9)) == []
    assert store.models.get(TENANT, "net").default_version == 2


def test_the_default_is_not_moved_back_to_what_was_withdrawn(store: Store, promoted: Model) -> None:
    digest = promoted.versions[0].artifacts["cpu"]
    with store._transactions.write() as connection:
        withdraw_from_versions(connection, TENANT, [digest], "a check")

    assert store.live_checks.add(TENANT, "net", 2, LiveCheck(asked=9, different=9)) == []

    assert store.models.get(TENANT, "net").default_version == 2


def test_what_the_default_is_moved_back_to_is_not_deleted(store: Store, promoted: Model) -> None:
    with pytest.raises(VersionIsDefault):
        store.models.delete_version(TENANT, "net", 1)
    store.models.promote(TENANT, "net", 2)

    store.models.delete_version(TENANT, "net", 1)

    assert [one.version for one in store.models.get(TENANT, "net").versions] == [2]


def test_a_default_before_which_there_was_none_cannot_be_guarded(store: Store, register: Register) -> None:
    register("net")

    with pytest.raises(NothingToMoveBackTo):
        store.models.promote(TENANT, "net", 1, move_back_after=1)
