import pytest

from service.domain.errors import (
    AliasMoved,
    AliasNotFound,
    IfMatchRequired,
    InvalidCursor,
    ModelNotFound,
    VersionAliased,
    VersionNotFound,
)
from service.domain.model import ModelRef
from service.domain.outcome import Succeeded
from tests.conftest import TENANT, make_artifact
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
    register("net")

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
        register("net")

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

    with pytest.raises(ModelNotFound, match="is queued") as soon:
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
