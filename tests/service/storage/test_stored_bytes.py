"""What a tenant causes to be stored beside its trace requests counts, too."""

from service.domain.api_key import Scope
from tests.conftest import TENANT, counted_bytes, log_bytes


def counted(store) -> int:
    """What all but the audit log counts."""
    return counted_bytes(store) - log_bytes(store)


def test_keys_count_also_when_they_are_revoked(store):
    key, _ = store.api_keys.create("n" * 100, TENANT, [Scope.INFER])
    one = counted(store)
    store.api_keys.revoke(key.prefix)
    store.api_keys.create("ü" * 100, TENANT, [Scope.INFER])

    assert one > 100
    assert counted(store) == 2 * one + 100


def test_webhooks_and_what_waits_for_them_count_until_they_are_deleted(store, register):
    traced = register("net")
    store.models.delete(TENANT, "net")
    store.trace_requests.delete(TENANT, traced.id)
    before = counted(store)
    webhook, _ = store.webhooks.create(TENANT, "https://example.com/" + "x" * 1000)
    alone = counted(store)

    again = register("net")
    store.models.delete(TENANT, "net")
    store.trace_requests.delete(TENANT, again.id)
    with_message = counted(store)
    store.webhooks.delete(TENANT, webhook.id)

    assert alone - before > 1000
    assert with_message - alone > len(again.id)
    assert counted(store) == before


def test_the_name_of_a_deleted_model_counts_as_it_is_kept(store, register):
    """With its last version, so that no number is given twice."""
    for name in ("a", "a", "b" * 60):
        traced = register(name)
        store.models.delete(TENANT, name)
        store.trace_requests.delete(TENANT, traced.id)

    assert 2 * 50 + 61 < counted(store) < 2 * 100 + 61


def test_nothing_of_it_counts_for_others_and_all_of_it_for_all(store, register):
    store.api_keys.create("theirs", "theirs", [Scope.INFER])
    store.webhooks.create("theirs", "https://example.com/")
    register("net", "theirs")

    assert counted_bytes(store) == 0
    assert store.figures.read().stored_bytes == counted_bytes(store, "theirs")
