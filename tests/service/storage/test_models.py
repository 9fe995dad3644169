import re

import pytest
from sqlalchemy import insert, select, text

from service.domain.api_key import Scope
from service.domain.errors import (
    AliasMoved,
    AliasNotFound,
    DefaultVersionMoved,
    IfMatchRequired,
    InvalidCursor,
    ModelNotFound,
    TooManyAliases,
    VersionAliased,
    VersionIsDefault,
    VersionNotFound,
)
from service.domain.model import ModelRef
from service.domain.outcome import Succeeded
from service.domain.serving_options import ModelKey, PinnedModel, ServingOptions
from service.domain.trace_request import Stage
from service.storage import models, tables
from service.storage.transactions import connect
from tests.conftest import TENANT, make_artifact
from tests.contracts import contract
from tracehouse.findings.trace_check import TorchCheck, TraceCheck
from tracehouse.findings.verdict import Verdict


def version_of(store, ref: str) -> int:
    return store.models.resolve(TENANT, ModelRef.parse(ref)).version


def test_a_model_has_its_versions_and_aliases(store, register):
    first, second = register("net"), register("net")
    store.models.put_alias(TENANT, "net", "prod", 1, None)

    model = store.models.get(TENANT, "net")

    assert [(version.version, version.trace_request) for version in model.versions] == [(1, first.id), (2, second.id)]
    assert [(alias.alias, alias.version) for alias in model.aliases] == [("prod", 1)]


def test_a_reference_finds_its_version(store, register):
    for _ in range(3):
        register("net")
    register("other")
    store.models.put_alias(TENANT, "net", "prod", 2, None)

    assert version_of(store, "net") == 3
    assert version_of(store, "net@prod") == 2
    assert version_of(store, "net:1") == 1


CHANGES_OF_MODELS = {
    "another version": lambda store, register: register("net"),
    "another model": lambda store, register: register("other"),
    "another default version": lambda store, register: store.models.promote(TENANT, "net", 1),
    "other serving options": lambda store, register: store.models.set_serving(TENANT, "net", {"threads": 2}),
    "an alias": lambda store, register: store.models.put_alias(TENANT, "net", "prod", 1, None),
    "an alias that is deleted": lambda store, register: store.models.delete_alias(TENANT, "net", "old"),
    "a version that is deleted": lambda store, register: store.models.delete_version(TENANT, "net", 1),
    "a model that is deleted": lambda store, register: store.models.delete(TENANT, "net"),
}


@pytest.mark.parametrize("change", CHANGES_OF_MODELS.values(), ids=CHANGES_OF_MODELS)
def test_whatever_changes_models_is_told_to_those_who_remember_them(store, register, change):
    for _ in range(2):
        register("net")
    store.models.put_alias(TENANT, "net", "old", 2, None)
    before, others = store.models.last_write(TENANT), store.models.last_write("another")

    change(store, register)

    assert store.models.last_write(TENANT) != before
    assert store.models.last_write("another") == others


def test_what_changes_no_model_and_no_key_leaves_them_remembered(store, register, new_request):
    register("net")
    _, key = store.api_keys.create("me", TENANT, [Scope.READ])
    before = store.models.last_write(TENANT), store.api_keys.last_write(key)

    request = store.trace_requests.add(new_request())
    store.trace_requests.claim(request.id)
    store.trace_requests.report(request.id, 1, Stage.TRACING, 0.5)
    store.events.append(request.id, "log", {"text": "printed"})
    store.trace_requests.cancel(TENANT, request.id)

    assert (store.models.last_write(TENANT), store.api_keys.last_write(key)) == before


@pytest.mark.parametrize(
    ("ref", "error"),
    [("other", ModelNotFound), ("other@prod", ModelNotFound), ("net@prod", AliasNotFound), ("net:2", VersionNotFound)],
)
def test_a_reference_to_nothing_says_what_is_missing(store, register, ref, error):
    register("net")

    with pytest.raises(error):
        store.models.resolve(TENANT, ModelRef.parse(ref))


def test_models_are_listed_by_name_page_by_page(store, register):
    for name in ("c", "a", "b", "b"):
        register(name)

    first = store.models.list(TENANT, 2)
    second = store.models.list(TENANT, 2, first.next_cursor)

    assert [(model.name, len(model.versions)) for model in first.items] == [("a", 1), ("b", 2)]
    assert [model.name for model in second.items] == ["c"]
    assert second.next_cursor is None


def test_a_cursor_of_another_list_is_refused(store, register):
    register("a")
    register("b")
    cursor = store.trace_requests.list(TENANT, 1).next_cursor

    with pytest.raises(InvalidCursor):
        store.models.list(TENANT, 1, cursor)


def test_a_page_of_models_with_many_versions_is_shorter(store, register, monkeypatch):
    monkeypatch.setattr(models, "_LISTED_MAX", 3)
    for name in ("a", "b", "b", "c", "c", "c", "c", "d"):
        register(name)
    pages, after = [], None
    while not pages or after is not None:
        page = store.models.list(TENANT, 10, after)
        pages.append([(model.name, len(model.versions)) for model in page.items])
        after = page.next_cursor

    assert pages == [[("a", 1), ("b", 2)], [("c", 4)], [("d", 1)]]


def test_a_model_has_only_so_many_aliases(store, register, monkeypatch):
    monkeypatch.setattr(models, "ALIASES_MAX", 2)
    register("net")
    register("other")
    for alias in ("prod", "test"):
        store.models.put_alias(TENANT, "net", alias, 1, None)

    with pytest.raises(TooManyAliases) as refused:
        store.models.put_alias(TENANT, "net", "more", 1, None)

    assert refused.value.facts["limit"] == 2
    store.models.put_alias(TENANT, "net", "prod", 1, "*")
    store.models.put_alias(TENANT, "other", "more", 1, None)
    store.models.delete_alias(TENANT, "net", "test")
    store.models.put_alias(TENANT, "net", "more", 1, None)


def test_an_alias_moves_from_where_it_was_seen(store, register):
    register("net")
    register("net")
    made = store.models.put_alias(TENANT, "net", "prod", 1, None)

    moved = store.models.put_alias(TENANT, "net", "prod", 2, made.etag)

    assert version_of(store, "net@prod") == 2
    assert store.models.get(TENANT, "net").aliases == [moved]
    assert moved.etag != made.etag


def test_an_alias_moves_from_anywhere_if_that_is_said(store, register):
    register("net")
    store.models.put_alias(TENANT, "net", "prod", 1, None)

    assert store.models.put_alias(TENANT, "net", "prod", 1, "*").version == 1


def test_an_alias_does_not_move_unless_it_is_said_from_where(store, register):
    register("net")
    made = store.models.put_alias(TENANT, "net", "prod", 1, None)

    with pytest.raises(IfMatchRequired) as raised:
        store.models.put_alias(TENANT, "net", "prod", 1, None)

    assert raised.value.facts["actual"] == made.etag


def test_an_alias_that_was_moved_meanwhile_stays(store, register):
    register("net")
    register("net")
    made = store.models.put_alias(TENANT, "net", "prod", 1, None)
    moved = store.models.put_alias(TENANT, "net", "prod", 2, made.etag)

    with pytest.raises(AliasMoved) as raised:
        store.models.put_alias(TENANT, "net", "prod", 1, made.etag)

    assert raised.value.facts == {"expected": made.etag, "actual": moved.etag}
    assert version_of(store, "net@prod") == 2


@pytest.mark.parametrize("etag", ['"1"', "*"])
def test_an_alias_that_is_not_there_cannot_be_moved(store, register, etag):
    register("net")

    with pytest.raises(AliasMoved):
        store.models.put_alias(TENANT, "net", "prod", 1, etag)

    assert store.models.get(TENANT, "net").aliases == []


def test_an_alias_made_anew_is_not_taken_for_the_one_before(store, register):
    register("net")
    before = store.models.put_alias(TENANT, "net", "prod", 1, None)
    store.models.delete_alias(TENANT, "net", "prod")
    store.models.put_alias(TENANT, "net", "prod", 1, None)

    with pytest.raises(AliasMoved):
        store.models.put_alias(TENANT, "net", "prod", 1, before.etag)


def test_of_moves_at_the_same_time_one_wins(store, register, at_once):
    register("net")
    made = store.models.put_alias(TENANT, "net", "prod", 1, None)

    moves = at_once(*[lambda: store.models.put_alias(TENANT, "net", "prod", 1, made.etag)] * 6)

    assert sum(isinstance(move, AliasMoved) for move in moves) == 5


def test_of_six_who_create_an_alias_at_once_one_wins(store, register, at_once):
    register("net")

    made = at_once(*[lambda: store.models.put_alias(TENANT, "net", "prod", 1, None)] * 6)

    assert sum(isinstance(one, IfMatchRequired) for one in made) == 5


def test_an_alias_points_only_at_what_is_there(store, register):
    with pytest.raises(ModelNotFound):
        store.models.put_alias(TENANT, "net", "prod", 1, None)
    register("net")

    with pytest.raises(VersionNotFound):
        store.models.put_alias(TENANT, "net", "prod", 2, None)


def test_a_version_number_is_never_given_twice(store, register):
    register("net")
    register("net", promote="never")

    store.models.delete_version(TENANT, "net", 2)
    assert register("net").model.version == 3

    store.models.delete(TENANT, "net")
    assert register("net").model.version == 4


def test_a_version_that_an_alias_points_at_stays(store, register):
    register("net")
    store.models.put_alias(TENANT, "net", "prod", 1, None)

    with pytest.raises(VersionAliased) as raised:
        store.models.delete_version(TENANT, "net", 1)

    assert raised.value.facts["aliases"] == ["prod"]
    store.models.delete_alias(TENANT, "net", "prod")
    store.models.delete_version(TENANT, "net", 1)


def test_of_an_alias_and_a_deletion_at_the_same_time_one_wins(store, register, at_once):
    register("net")
    for version in range(2, 7):
        register("net", promote="never")

        alias, deletion = at_once(
            lambda version=version: store.models.put_alias(TENANT, "net", f"a{version}", version, None),
            lambda version=version: store.models.delete_version(TENANT, "net", version),
        )

        assert isinstance(alias, VersionNotFound) != isinstance(deletion, VersionAliased)


def test_a_deleted_model_is_gone_with_all_that_it_had(store, register):
    request = register("net")
    store.models.put_alias(TENANT, "net", "prod", 1, None)

    store.models.delete(TENANT, "net")

    assert store.models.list(TENANT, 10).items == []
    for forget in (store.models.get, store.models.delete):
        with pytest.raises(ModelNotFound):
            forget(TENANT, "net")
    assert store.artifacts.get(TENANT, request.artifacts[0].digest)
    register("net")
    assert store.models.get(TENANT, "net").aliases == []


def test_a_model_is_gone_with_its_last_version(store, register):
    register("net")

    store.models.delete_version(TENANT, "net", 1)

    with pytest.raises(ModelNotFound):
        store.models.get(TENANT, "net")


def test_what_is_not_there_cannot_be_deleted(store, register):
    with pytest.raises(ModelNotFound):
        store.models.delete_version(TENANT, "net", 1)
    register("net")

    with pytest.raises(VersionNotFound):
        store.models.delete_version(TENANT, "net", 2)
    with pytest.raises(AliasNotFound):
        store.models.delete_alias(TENANT, "net", "prod")


def test_what_is_not_there_is_told_with_what_is(store, register, new_request, success):
    register("net")
    register("net")
    store.trace_requests.add(rejected := new_request("unsound"))
    store.trace_requests.claim(rejected.id)
    store.trace_requests.finish(rejected.id, 1, success(rejected, Verdict.REJECTED))

    with pytest.raises(VersionNotFound) as version:
        store.models.resolve(TENANT, ModelRef.parse("net:9"))
    with pytest.raises(ModelNotFound) as model:
        store.models.get(TENANT, "nett")
    with pytest.raises(ModelNotFound) as unsound:
        store.models.get(TENANT, "unsound")

    assert version.value.facts["versions"] == [2, 1]
    assert model.value.facts["models"] == ["net"]
    assert "rejected" not in model.value.facts
    assert unsound.value.facts["rejected"] == rejected.id


def test_a_model_that_is_asked_for_but_not_traced_yet_names_its_trace_request(store, new_request):
    store.trace_requests.add(first := new_request("soon"))
    store.trace_requests.cancel(TENANT, first.id)
    store.trace_requests.add(queued := new_request("soon"))

    with pytest.raises(ModelNotFound, match="a trace request for it waits") as soon:
        store.models.resolve(TENANT, ModelRef.parse("soon"))

    assert soon.value.facts["trace_request"] == queued.id
    assert queued.id in soon.value.facts["remedy"]


def finished(store, new_request, *artifacts):
    request = store.trace_requests.add(new_request("net"))
    claimed = store.trace_requests.claim(request.id)
    assert store.trace_requests.finish(claimed.id, claimed.attempt, Succeeded.of(claimed.spec, artifacts))
    return store.trace_requests.get(TENANT, request.id)


def test_a_version_has_an_artifact_for_each_of_its_buckets(store, new_request):
    artifacts = [make_artifact(bucket={"seq": seq}) for seq in (8, 16)]

    request = finished(store, new_request, *artifacts)

    version = store.models.resolve(TENANT, ModelRef.parse("net"))
    assert version.artifacts == {"cpu": artifacts[0].digest}
    assert [(bucket.sizes, bucket.digest) for bucket in version.buckets] == [
        ({"seq": 8}, artifacts[0].digest),
        ({"seq": 16}, artifacts[1].digest),
    ]
    assert store.models.get(TENANT, "net").versions == [version]
    assert [(one.device, one.bucket, one.digest) for one in request.artifacts] == [
        ("cpu", {"seq": 8}, artifacts[0].digest),
        ("cpu", {"seq": 16}, artifacts[1].digest),
    ]
    assert [store.artifacts.get(TENANT, artifact.digest) for artifact in artifacts] == artifacts


def test_a_version_without_buckets_has_none(store, register):
    register("net")

    assert store.models.resolve(TENANT, ModelRef.parse("net")).buckets == []


@pytest.fixture
def register_with(store, new_request):
    """Register a version of the model `net` that accepts the sizes 1 to `seq` of its input; returns the request."""

    def register_with(seq: int, verdict: Verdict = Verdict.VERIFIED, **spec):
        request = store.trace_requests.add(new_request("net", accept_unsound=True, **spec))
        claimed = store.trace_requests.claim(request.id)
        check = TraceCheck(verdict=verdict, comparisons=[], findings=[], torch=TorchCheck(ran=False))
        artifact = make_artifact(contract=contract({"ids": ("seq",)}, {"seq": f"1..{seq}"}), check=check)
        assert store.trace_requests.finish(claimed.id, claimed.attempt, Succeeded.of(claimed.spec, [artifact]))
        return store.trace_requests.status(TENANT, request.id)

    return register_with


def test_a_version_that_accepts_as_much_is_promoted(store, register_with):
    first, second = register_with(16), register_with(32)

    assert version_of(store, "net") == 2
    assert (first.promotion.promoted, second.promotion.promoted) == (True, True)
    assert first.promotion.reason == "the model had no default version"
    assert "version 1" in second.promotion.reason


def test_a_version_that_accepts_less_is_not_promoted(store, register_with):
    register_with(32)

    narrower = register_with(16)

    assert version_of(store, "net") == 1
    assert version_of(store, "net:2") == 2
    assert not narrower.promotion.promoted
    assert narrower.promotion.reason == (
        "version 1 stays the default version: sizes 17 to 32 of 'seq' (dim 0 of input 'ids') are no longer accepted"
    )
    model = store.models.get(TENANT, "net")
    assert model.default_version == 1
    assert [version.promotion.promoted for version in model.versions] == [True, False]
    assert model.versions[1].promotion == narrower.promotion


def test_a_version_with_a_worse_verdict_is_not_promoted(store, register_with):
    register_with(16)

    worse = register_with(32, Verdict.RESTRICTED)

    assert version_of(store, "net") == 1
    assert worse.promotion.reason.endswith("the new verdict is restricted, and was verified")


def test_a_version_with_a_better_verdict_is_promoted(store, register_with):
    register_with(16, Verdict.RESTRICTED)
    register_with(16, Verdict.RESTRICTED)
    assert version_of(store, "net") == 2

    register_with(16)

    assert version_of(store, "net") == 3


def test_the_default_version_is_what_a_new_one_is_compared_with(store, register_with):
    """Not the newest one, which does not answer."""
    register_with(32)
    register_with(8)

    register_with(16)

    assert version_of(store, "net") == 1


def test_a_request_may_say_whether_its_version_is_promoted(store, register_with):
    register_with(32)

    always, never = register_with(16, promote="always"), register_with(64, promote="never")

    assert (always.promotion.promoted, never.promotion.promoted) == (True, False)
    assert version_of(store, "net") == 2


def test_a_model_of_which_nothing_was_promoted_answers_by_version_only(store, register_with):
    register_with(16, promote="never")

    with pytest.raises(VersionNotFound) as refused:
        version_of(store, "net")

    assert refused.value.facts["versions"] == [1]
    assert "/models/net/promote" in refused.value.facts["remedy"]
    assert version_of(store, "net:1") == 1
    assert store.models.get(TENANT, "net").default_version is None
    assert store.models.promote(TENANT, "net", 1) is None
    assert version_of(store, "net") == 1


def test_a_version_is_promoted_and_rolled_back_in_one_call_each(store, register_with):
    register_with(32)
    register_with(16)

    assert store.models.promote(TENANT, "net", 2) == 1
    assert version_of(store, "net") == 2
    assert store.models.promote(TENANT, "net", 1) == 2
    assert version_of(store, "net") == 1


def test_a_version_is_promoted_from_where_the_default_was_seen(store, register_with):
    register_with(32)
    register_with(16)

    with pytest.raises(DefaultVersionMoved) as refused:
        store.models.promote(TENANT, "net", 2, expected=3)

    assert (refused.value.facts["expected"], refused.value.facts["actual"]) == (3, 1)
    assert version_of(store, "net") == 1
    assert store.models.promote(TENANT, "net", 2, expected=1) == 1


def test_a_first_promotion_is_refused_where_somebody_promoted_meanwhile(store, register_with):
    for _ in range(2):
        register_with(32, promote="never")

    assert store.models.promote(TENANT, "net", 1, expected=0) is None
    with pytest.raises(DefaultVersionMoved) as refused:
        store.models.promote(TENANT, "net", 2, expected=0)

    assert refused.value.facts["actual"] == 1
    assert version_of(store, "net") == 1


def test_of_promotions_from_the_same_version_one_wins(store, register_with, at_once):
    for _ in range(5):
        register_with(32, promote="never")
    store.models.promote(TENANT, "net", 1)

    moves = at_once(
        *[lambda version=version: store.models.promote(TENANT, "net", version, expected=1) for version in range(2, 6)]
    )

    assert sum(isinstance(move, DefaultVersionMoved) for move in moves) == 3


def test_what_is_not_there_is_not_promoted(store, register_with):
    with pytest.raises(ModelNotFound):
        store.models.promote(TENANT, "net", 1)
    register_with(32)

    with pytest.raises(VersionNotFound):
        store.models.promote(TENANT, "net", 2)
    assert version_of(store, "net") == 1


def test_the_default_version_is_deleted_only_as_the_last_one(store, register_with):
    register_with(32)
    register_with(16)

    with pytest.raises(VersionIsDefault) as refused:
        store.models.delete_version(TENANT, "net", 1)

    assert refused.value.facts["versions"] == [2]
    assert version_of(store, "net") == 1
    store.models.delete_version(TENANT, "net", 2)
    store.models.delete_version(TENANT, "net", 1)
    assert register_with(8).promotion.reason == "the model had no default version"
    assert version_of(store, "net") == 3


def test_a_model_made_anew_has_a_default_version_of_its_own(store, register_with):
    register_with(32)
    store.models.delete(TENANT, "net")

    register_with(8)

    assert version_of(store, "net") == 2


def test_of_versions_that_are_registered_at_once_the_widest_answers(store, new_request, at_once):
    """Each is compared with what answers when its own transaction runs."""

    def finish(seq: int, request_id: str) -> None:
        claimed = store.trace_requests.claim(request_id)
        artifact = make_artifact(contract=contract({"ids": ("seq",)}, {"seq": f"1..{seq}"}))
        assert store.trace_requests.finish(claimed.id, claimed.attempt, Succeeded.of(claimed.spec, [artifact]))

    sizes = [4, 8, 16, 32, 64]
    ids = [store.trace_requests.add(new_request("net")).id for _ in sizes]

    at_once(*[lambda seq=seq, ended=each: finish(seq, ended) for seq, each in zip(sizes, ids, strict=True)])

    widest = store.trace_requests.status(TENANT, ids[-1])
    assert widest.promotion.promoted
    assert version_of(store, "net") == widest.model.version


def test_buckets_count_together(store, new_request):
    buckets = [
        make_artifact(bucket={"seq": seq}, contract=contract({"ids": ("batch", seq)}, {"batch": "1..8"}))
        for seq in (8, 16)
    ]
    finished(store, new_request, *buckets)

    assert finished(store, new_request, *buckets).promotion.promoted
    fewer = finished(store, new_request, buckets[0])
    assert fewer.promotion.reason.endswith("size 16 of dim 1 of input 'ids' is no longer accepted")
    one = make_artifact(contract=contract({"ids": ("batch", "seq")}, {"batch": "1..8", "seq": "8..16"}))
    assert finished(store, new_request, one).promotion.promoted


def test_a_device_that_is_gone_keeps_a_version_from_answering(store, new_request):
    both = [make_artifact(device=device) for device in ("cpu", "cuda")]
    finished(store, new_request, *both)

    without = finished(store, new_request, make_artifact())

    assert without.promotion.reason.endswith("it is not traced for cuda")
    assert finished(store, new_request, *both).promotion.promoted


def test_a_contract_that_cannot_be_read_covers_nothing(store, database_url, register_with):
    """What another release stored must not keep a trace from ending."""
    register_with(8)
    engine = connect(database_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE artifacts SET manifest = '{}'")
    engine.dispose()

    after = register_with(16)

    assert not after.promotion.promoted
    assert "cannot be compared" in after.promotion.reason
    assert version_of(store, "net") == 1


def test_the_same_content_is_answered_with_what_happened_then(store, new_request, register_with):
    register_with(32, options={"seed": 1})
    first = register_with(16, force=False)
    store.models.promote(TENANT, "net", 2)

    again = store.trace_requests.add(new_request("net", accept_unsound=True, force=False))

    assert (again.id, again.promotion) == (first.id, first.promotion)
    assert not again.promotion.promoted


def test_content_that_is_always_promoted_is_traced_again_once_it_was_rolled_back(store, new_request, register_with):
    register_with(32)
    first = register_with(16, force=False, promote="always")

    def again() -> str:
        return store.trace_requests.add(new_request("net", accept_unsound=True, force=False, promote="always")).id

    assert again() == first.id
    store.models.promote(TENANT, "net", 1)
    assert again() != first.id


def test_another_wish_about_promotion_is_another_request(store, new_request, register_with):
    first = register_with(32, force=False)

    other = store.trace_requests.add(new_request("net", accept_unsound=True, force=False, promote="never"))

    assert other.id != first.id


def test_options_are_found_of_many_models_at_once_and_of_those_that_are_there(store, register, monkeypatch):
    monkeypatch.setattr(models, "_ASKED_AT_ONCE", 2)
    for name in "abc":
        register(name)
    store.models.set_serving(TENANT, "a", {"idle_s": 600.0})
    store.models.set_serving(TENANT, "c", {"bitwise": True, "idle_s": 0.0})
    store.models.set_serving(TENANT, "c", {"bitwise": False})

    found = store.models.serving_of_all([ModelKey(TENANT, name) for name in "abcd"] + [ModelKey("others", "a")])

    assert {key.name: options.idle_s for key, options in found.items()} == {"a": 600.0, "b": None, "c": 0.0}
    assert {key.tenant for key in found} == {TENANT}


def test_pinned_models_are_those_with_a_default_version_that_answers(store, register):
    for name in ("answers", "moved", "unpinned", "deleted"):
        register(name)
    register("moved")
    register("never", promote="never")
    for name in ("answers", "moved", "unpinned", "deleted", "never"):
        store.models.set_serving(TENANT, name, {"pinned": True})
    store.models.set_serving(TENANT, "unpinned", {"pinned": False})
    store.models.promote(TENANT, "moved", 1)
    store.models.delete(TENANT, "deleted")

    store.models.set_serving(TENANT, "moved", {"threads": 4})
    answers, moved = ModelKey(TENANT, "answers"), ModelKey(TENANT, "moved")
    assert store.models.pinned() == [
        PinnedModel(answers, 1, ServingOptions(pinned=True)),
        PinnedModel(moved, 1, ServingOptions(pinned=True, threads=4)),
    ]
    store.models.promote(TENANT, "never", 1)
    assert [one.model.name for one in store.models.pinned()] == ["answers", "moved", "never"]


def test_looking_after_models_costs_the_same_however_many_there_are(store, register, database_url, plans_of):
    register("net")
    store.models.set_serving(TENANT, "net", {"pinned": True})
    engine = connect(database_url)
    with engine.begin() as connection:
        row = connection.execute(select(tables.models)).mappings().one()
        copies = [{**row, "name": f"copy-{place}", "pinned": False} for place in range(10_000)]
        connection.execute(insert(tables.models), copies)
        connection.execute(text("ANALYZE"))
    engine.dispose()

    [(_, pinned)] = plans_of(store.models.pinned)
    [(_, options)] = plans_of(lambda: store.models.serving_of_all([ModelKey(TENANT, "net")]))

    assert "ix_models_pinned" in pinned
    assert re.search(r"sqlite_autoindex_models_1 \(tenant=\? AND name=\?\)|using pk_models ", options)
    assert [one.model.name for one in store.models.pinned()] == ["net"]
