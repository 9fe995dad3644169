"""What is one tenant's is, for every other, not there."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import orjson
import pytest
from sqlalchemy import text

from migrations.check import empty_schema
from service.domain.api_key import Scope
from service.domain.errors import (
    ArtifactNotFound,
    IdempotencyKeyReused,
    ModelNotFound,
    QueueFull,
    QueueQuotaExceeded,
    StorageQuotaExceeded,
    VersionNotFound,
)
from service.domain.idempotency import Idempotency
from service.domain.model import ModelRef
from service.domain.outcome import NotTraced, Succeeded
from service.domain.quotas import Quotas
from service.domain.trace_request import State, TraceRequest
from service.storage.database import Store
from tests.conftest import counted_bytes, make_artifact, stored_bytes
from tests.service.conftest import POSTGRES_URL
from tests.service.storage.conftest import registering
from tracehouse.artifact.blob import BlobRef
from tracehouse.errors import Failure, NotFound
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.trace_spec import CheckBudget


@dataclass(frozen=True)
class Things:
    """What a tenant has, by the names under which others might ask for it."""

    queued: str
    traced: str
    digest: str
    model: str
    alias: str
    rejected: str
    key: str


NOTHING = Things("0" * 32, "1" * 32, "sha256:" + "0" * 64, "absent", "nowhere", "rejected-absent", "th_00000000")

# Every method that answers somebody, on what another tenant has.
ASKS: dict[str, Callable[[Store, str, Things], Any]] = {
    "trace_requests.get": lambda store, tenant, its: store.trace_requests.get(tenant, its.traced),
    "trace_requests.source": lambda store, tenant, its: store.trace_requests.source(tenant, its.traced),
    "trace_requests.status": lambda store, tenant, its: store.trace_requests.status(tenant, its.queued),
    "trace_requests.take_over": lambda store, tenant, its: store.trace_requests.take_over(tenant, its.queued),
    "trace_requests.list": lambda store, tenant, its: store.trace_requests.list(tenant, 10).items,
    "trace_requests.list of a model": lambda store, tenant, its: (
        store.trace_requests.list(tenant, 10, state=State.SUCCEEDED, model=its.model).items
    ),
    "trace_requests.cancel": lambda store, tenant, its: store.trace_requests.cancel(tenant, its.queued),
    "trace_requests.cancel of one that ended": lambda store, tenant, its: store.trace_requests.cancel(
        tenant, its.traced
    ),
    "trace_requests.delete of one that has not ended": lambda store, tenant, its: store.trace_requests.delete(
        tenant, its.queued
    ),
    "events.after": lambda store, tenant, its: store.events.after(tenant, its.queued, 0, 10),
    "events.log": lambda store, tenant, its: [*store.events.log(tenant, its.queued)],
    "artifacts.get": lambda store, tenant, its: store.artifacts.get(tenant, its.digest),
    "artifacts.printouts": lambda store, tenant, its: store.artifacts.printouts(tenant, its.digest),
    "artifacts.signature": lambda store, tenant, its: store.artifacts.signature(tenant, its.digest),
    "artifacts.withdrawals": lambda store, tenant, its: store.artifacts.withdrawals(tenant, [its.digest]),
    "further_checks.maker": lambda store, tenant, its: store.further_checks.maker(tenant, its.digest),
    "further_checks.later": lambda store, tenant, its: store.further_checks.later(tenant, its.digest),
    "models.list": lambda store, tenant, its: store.models.list(tenant, 10).items,
    "models.get": lambda store, tenant, its: store.models.get(tenant, its.model),
    "models.get of a rejected one": lambda store, tenant, its: store.models.get(tenant, its.rejected),
    "models.resolve": lambda store, tenant, its: store.models.resolve(tenant, ModelRef(name=its.model)),
    "models.resolve by version": lambda store, tenant, its: store.models.resolve(
        tenant, ModelRef(name=its.model, version=2)
    ),
    "models.resolve by alias": lambda store, tenant, its: store.models.resolve(
        tenant, ModelRef(name=its.model, alias=its.alias)
    ),
    "models.put_alias": lambda store, tenant, its: store.models.put_alias(tenant, its.model, "new", 1, None),
    "models.put_alias of one there is": lambda store, tenant, its: store.models.put_alias(
        tenant, its.model, its.alias, 1, "*"
    ),
    "models.serving": lambda store, tenant, its: store.models.serving(tenant, its.model),
    "models.set_serving": lambda store, tenant, its: store.models.set_serving(tenant, its.model, {"idle_s": 7.0}),
    "models.promote": lambda store, tenant, its: store.models.promote(tenant, its.model, 1),
    "audit_log.list": lambda store, tenant, its: store.audit_log.list(tenant, 10).items,
    "api_keys.list_of": lambda store, tenant, its: store.api_keys.list_of(tenant, 10).items,
    "api_keys.get": lambda store, tenant, its: store.api_keys.get(tenant, its.key),
    "models.delete": lambda store, tenant, its: store.models.delete(tenant, its.model),
    "models.delete_version": lambda store, tenant, its: store.models.delete_version(tenant, its.model, 3),
    "models.delete_alias": lambda store, tenant, its: store.models.delete_alias(tenant, its.model, its.alias),
}

# What workers and the engine call, on behalf of whoever submitted it; and what takes the request, which has a tenant.
FOR_WORKERS = {
    "trace_requests.add",
    "trace_requests.refuse",
    "trace_requests.status_of_any_tenant",
    "trace_requests.claim",
    "trace_requests.report",
    "trace_requests.finish",
    "trace_requests.charge",
    "trace_requests.release",
    "trace_requests.retry",
    "trace_requests.recover",
    "further_checks.next_idle",
    "further_checks.leave_out",
    "events.append",
    "models.serving_of_all",
    "models.pinned",
    # A number, which does not say what was written.
    "models.last_write",
    # What a request is let in by, and what the command asks, which is an operator's.
    "api_keys.authenticate",
    "api_keys.last_write",
    "api_keys.any_usable",
    "api_keys.create",
    "api_keys.create_first",
    "api_keys.list",
    "api_keys.revoke",
}


def text_bytes(store: Store) -> int:
    """The bytes of all texts that the requests' tables have."""
    with store.events._transactions.read() as connection:
        return sum(
            len(value.encode())
            for table in ("trace_requests", "submissions", "events", "idempotency_keys")
            for row in connection.execute(text(f"SELECT * FROM {table}"))
            for value in row
            if isinstance(value, str)
        )


@pytest.fixture
def theirs(store, new_request, success) -> Things:
    return put_things(store, new_request, success)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"] if POSTGRES_URL else ["sqlite"])
def another(request, tmp_path_factory, new_store, new_request, success) -> Iterator[tuple[Store, Things]]:
    """A store and what another tenant has in it: one for all tests that find that nobody else can change it."""
    directory = tmp_path_factory.mktemp("another")
    with ExitStack() as opened:
        if request.param == "sqlite":
            store = new_store(directory)
        else:
            url = opened.enter_context(empty_schema(POSTGRES_URL))
            store = Store.open(url, (directory / "blobs").as_uri())
        opened.callback(store.close)
        yield store, put_things(store, new_request, success)


def put_things(store: Store, new_request, success) -> Things:
    register = registering(store, new_request, success)
    traced = register("their-net", "theirs")
    register("their-net", "theirs")
    register("their-net", "theirs", promote="never")
    store.models.put_alias("theirs", "their-net", "their-alias", 1, None)
    store.models.set_serving("theirs", "their-net", {"bitwise": True})
    rejected = store.trace_requests.add(new_request("their-rejected", "theirs"))
    store.trace_requests.claim(rejected.id)
    store.trace_requests.finish(rejected.id, 1, success(rejected, Verdict.REJECTED))
    queued = store.trace_requests.add(new_request("their-net", "theirs"))
    store.events.append(queued.id, "log", {"text": "printed by their-net"})
    refute(store, traced, success)
    key, _ = store.api_keys.create("their key", "theirs", [Scope.READ])
    digest = traced.artifacts[0].digest
    return Things(queued.id, traced.id, digest, "their-net", "their-alias", "their-rejected", key.prefix)


def refute(store: Store, traced: TraceRequest, success: Callable[..., Succeeded]) -> None:
    """Let a later check reject what the request made."""
    digest = traced.artifacts[0].digest
    later = store.trace_requests.add(traced.going_on(digest, "cpu", CheckBudget(budget="deep"), torch_version="2"))
    store.trace_requests.claim(later.id)
    [rejected] = success(later, Verdict.REJECTED).artifacts
    outcome = Succeeded.of(later.spec, [rejected.model_copy(update={"continues": digest})])
    store.trace_requests.finish(later.id, 1, outcome.model_copy(update={"refutes": digest}))


def snapshot(store: Store, tenant: str) -> Any:
    """All that the tenant could see."""
    requests = store.trace_requests.list(tenant, 100).items
    events = [store.events.after(tenant, status.id, 0, 100) for status in requests]
    artifacts = [store.artifacts.get(tenant, ref.digest) for status in requests for ref in status.artifacts]
    keys = store.api_keys.list_of(tenant, 100).items
    return requests, events, artifacts, store.models.list(tenant, 100).items, keys


def answer(ask: Callable[..., Any], store: Store, tenant: str, things: Things) -> Any:
    """What comes back, or is raised, with the names that were asked for left out."""
    try:
        return ask(store, tenant, things)
    except NotFound as error:
        told = orjson.dumps(error.failure().model_dump()).decode()
        for name, value in asdict(things).items():
            told = told.replace(f'"{value}"', f"<{name}>")
        return told


@pytest.mark.parametrize("method", ASKS)
def test_what_is_anothers_is_answered_as_what_is_not_there(another, method):
    ask, (store, theirs) = ASKS[method], another

    told = answer(ask, store, "ours", theirs)

    assert told == answer(ask, store, "ours", NOTHING)
    assert "their" not in str(told)


@pytest.mark.parametrize("method", ASKS)
def test_what_is_anothers_cannot_be_changed(another, method):
    store, theirs = another
    before = snapshot(store, "theirs")

    answer(ASKS[method], store, "ours", theirs)

    assert snapshot(store, "theirs") == before


@pytest.mark.parametrize("method", [method for method in ASKS if "ended" not in method and "rejected" not in method])
def test_what_is_ones_own_is_answered(store, theirs, method):
    """Else the two tests above would hold for a store that answers nobody."""
    ours = answer(ASKS[method], store, "ours", theirs)

    assert answer(ASKS[method], store, "theirs", theirs) != ours


def test_no_method_is_forgotten(store):
    parts = {
        name: getattr(store, name)
        for name in ("trace_requests", "events", "artifacts", "further_checks", "models", "audit_log", "api_keys")
    }
    methods = {
        f"{name}.{method}"
        for name, part in parts.items()
        for method, _ in inspect.getmembers(part, callable)
        if not method.startswith("_")
    }
    for_somebody = methods - FOR_WORKERS

    assert methods >= FOR_WORKERS
    assert for_somebody == {ask.split(" ")[0] for ask in ASKS}
    for method in for_somebody:
        name, _, attribute = method.partition(".")
        assert next(iter(inspect.signature(getattr(parts[name], attribute)).parameters)) == "tenant"


def test_each_tenant_has_its_own_model_of_a_name(store, register):
    first = register("net", "ours")
    for _ in range(3):
        last = register("net", "theirs")
    store.models.put_alias("ours", "net", "prod", 1, None)
    store.models.put_alias("theirs", "net", "prod", 3, None)

    assert [version.trace_request for version in store.models.get("ours", "net").versions] == [first.id]
    assert store.models.resolve("ours", ModelRef.parse("net@prod")).trace_request == first.id
    assert store.models.resolve("theirs", ModelRef.parse("net@prod")).trace_request == last.id
    with pytest.raises(VersionNotFound) as refused:
        store.models.resolve("ours", ModelRef.parse("net:2"))
    assert refused.value.facts["versions"] == [1]


def test_a_model_that_is_deleted_stays_another_tenants(store, register):
    for tenant in ("ours", "theirs"):
        register("net", tenant)
        register("net", tenant, promote="never")
        store.models.put_alias(tenant, "net", "prod", 1, None)
    before = snapshot(store, "theirs")

    store.models.delete_version("ours", "net", 2)
    store.models.delete_alias("ours", "net", "prod")
    store.models.delete("ours", "net")

    assert snapshot(store, "theirs") == before
    with pytest.raises(ModelNotFound) as refused:
        store.models.get("ours", "net")
    assert refused.value.facts["models"] == []


def test_a_page_of_models_is_of_one_tenants_own(store, register):
    for tenant in ("ours", "theirs"):
        for name in "abc":
            register(name, tenant)
    store.models.delete("ours", "a")

    first = store.models.list("ours", 1)
    second = store.models.list("ours", 1, first.next_cursor)

    assert [model.name for page in (first, second) for model in page.items] == ["b", "c"]
    assert second.next_cursor is None


def test_content_whose_version_was_deleted_is_traced_again_though_another_tenant_has_it(store, new_request, register):
    for tenant in ("ours", "theirs"):
        register("net", tenant)
    store.models.delete("ours", "net")

    again = new_request("net", "ours", force=False)

    assert store.trace_requests.add(again).id == again.id


def test_an_artifact_is_seen_by_those_who_traced_it(store, register):
    """Equal artifacts are one."""
    digest = register("net", "theirs").artifacts[0].digest
    with pytest.raises(ArtifactNotFound):
        store.artifacts.get("ours", digest)

    assert register("net", "ours").artifacts[0].digest == digest

    assert store.artifacts.get("ours", digest) == store.artifacts.get("theirs", digest)
    with pytest.raises(ArtifactNotFound):
        store.artifacts.get("others", digest)


def test_the_same_content_of_another_tenant_is_a_request_of_its_own(store, new_request, register):
    there = register("net", "theirs")
    same = new_request("net", "ours", force=False)
    assert same.content == there.content

    kept = store.trace_requests.add(same)

    assert (kept.id, kept.state, kept.tenant) == (same.id, State.QUEUED, "ours")
    assert store.trace_requests.add(new_request("net", "theirs", force=False)).id == there.id


def test_the_same_key_of_another_tenant_is_another_key(store, new_request):
    their_first, ours_first, our_other = (
        new_request("net", "theirs"),
        new_request("net", "ours"),
        new_request("other", "ours"),
    )
    store.trace_requests.add(their_first, Idempotency.of("key", their_first))

    store.trace_requests.refuse(our_other, Idempotency.of("key", our_other))
    assert store.trace_requests.add(ours_first, Idempotency.of("key", ours_first)).id == ours_first.id
    with pytest.raises(IdempotencyKeyReused) as refused:
        store.trace_requests.add(our_other, Idempotency.of("key", our_other))

    assert refused.value.facts["trace_request"] == ours_first.id


def test_a_tenant_may_have_so_many_requests_waiting(store, new_request):
    quotas = Quotas(queued_max=2)
    waiting = [store.trace_requests.add(new_request(), quotas=quotas) for _ in range(2)]

    for ask in (store.trace_requests.refuse, store.trace_requests.add):
        with pytest.raises(QueueQuotaExceeded) as refused:
            ask(new_request(), quotas=quotas)
        assert refused.value.facts == {"waiting": 2, "limit": 2}

    assert store.trace_requests.add(new_request("net", "theirs"), quotas=quotas).tenant == "theirs"
    store.trace_requests.claim(waiting[0].id)
    assert store.trace_requests.add(new_request(), quotas=quotas).state is State.QUEUED


def test_a_tenant_that_is_over_its_own_quota_is_told_so_though_the_queue_is_full(store, new_request):
    store.trace_requests.add(new_request())

    with pytest.raises(QueueQuotaExceeded):
        store.trace_requests.add(new_request(), queue_max=1, quotas=Quotas(queued_max=1))
    with pytest.raises(QueueFull):
        store.trace_requests.add(new_request("net", "theirs"), queue_max=1, quotas=Quotas(queued_max=1))


def upload(new_request, byte_size: int, tenant: str = "ours") -> TraceRequest:
    blob = BlobRef(digest="sha256:" + "a" * 64, byte_size=byte_size)
    return TraceRequest.new(new_request().spec, {"net.py": blob}, torch_version="2", tenant=tenant)


def test_a_tenant_may_keep_so_many_bytes(store, new_request):
    quotas = Quotas(stored_max_bytes=10_000)
    first = store.trace_requests.add(upload(new_request, 5_000), quotas=quotas)

    for ask in (store.trace_requests.refuse, store.trace_requests.add):
        with pytest.raises(StorageQuotaExceeded) as refused:
            ask(upload(new_request, 5_000), quotas=quotas)
        facts = refused.value.facts
        assert first.submitted_bytes < facts["stored_bytes"] == counted_bytes(store) < 7_500
        assert (facts["staged_bytes"], facts["limit"]) == (0, 10_000)
        assert facts["sent_bytes"] > 5_000

    store.trace_requests.add(upload(new_request, 5_000, "theirs"), quotas=quotas)
    store.trace_requests.add(upload(new_request, 1_000), quotas=quotas)


def test_inline_text_counts(store, new_request):
    large = new_request(source={"files": {"net.py": "ü" * 5_000}, "entrypoint": "net:Net"})

    with pytest.raises(StorageQuotaExceeded):
        store.trace_requests.add(large, quotas=Quotas(stored_max_bytes=10_000))


def test_an_artifact_counts_once_and_for_each_who_traced_it(store, new_request):
    artifact = make_artifact(archive=BlobRef(digest="sha256:" + "b" * 64, byte_size=50_000))

    def trace(tenant: str) -> int:
        """Return what the tenant has stored then."""
        request = store.trace_requests.add(new_request("net", tenant))
        store.trace_requests.claim(request.id)
        store.trace_requests.finish(request.id, 1, Succeeded.of(request.spec, [artifact]))
        return stored_bytes(store, tenant)

    first, second, other = trace("ours"), trace("ours"), trace("theirs")

    assert first - (second - first) == 50_000 + len(artifact.manifest())
    assert other == first


def test_what_was_let_in_is_kept_though_its_tenant_has_no_room(store, new_request, success):
    request = store.trace_requests.add(new_request(), quotas=Quotas(stored_max_bytes=2_000))
    store.trace_requests.claim(request.id)
    large = make_artifact(archive=BlobRef(digest="sha256:" + "b" * 64, byte_size=50_000))

    assert store.trace_requests.finish(request.id, 1, Succeeded.of(request.spec, [large]))

    assert store.trace_requests.get("ours", request.id).state is State.SUCCEEDED
    with pytest.raises(StorageQuotaExceeded):
        store.trace_requests.add(new_request(), quotas=Quotas(stored_max_bytes=2_000))


def test_what_is_there_already_is_given_though_its_tenant_is_over_its_quotas(store, new_request):
    there = store.trace_requests.add(new_request(force=False))
    nothing = Quotas(queued_max=0, stored_max_bytes=0)

    store.trace_requests.refuse(new_request(force=False), quotas=nothing)
    assert store.trace_requests.add(new_request(force=False), quotas=nothing).id == there.id


def test_a_failed_request_keeps_what_was_sent(store, new_request):
    request = store.trace_requests.add(upload(new_request, 5_000))
    store.trace_requests.claim(request.id)
    store.trace_requests.finish(request.id, 1, NotTraced(failure=Failure(slug="model-raised", detail="boom")))

    with pytest.raises(StorageQuotaExceeded):
        store.trace_requests.add(upload(new_request, 5_000), quotas=Quotas(stored_max_bytes=10_000))


def test_what_a_request_prints_counts(store, new_request):
    request = store.trace_requests.add(new_request())
    before = stored_bytes(store)

    store.events.append(request.id, "log", {"text": "\0ü" * 10_000})

    assert stored_bytes(store) - before > 8 * 10_000, "as it is stored: the null takes six bytes in JSON, and the ü two"
    with pytest.raises(StorageQuotaExceeded):
        store.trace_requests.add(new_request(), quotas=Quotas(stored_max_bytes=80_000))


def test_all_that_a_request_leaves_in_the_tables_counts(store, new_request, success):
    """Its events, what became of it, and the keys under which it was sent."""
    for number in range(20):
        same = new_request(force=False, options={"seed": number // 2})
        there = store.trace_requests.add(same, Idempotency.of(f"{number:0200}", same))
        if there.id == same.id:
            store.trace_requests.claim(same.id)
            failed = NotTraced(failure=Failure(slug="model-raised", detail="boom" * 1_000))
            store.trace_requests.finish(same.id, 1, success(same) if number % 4 else failed)

    assert stored_bytes(store) > text_bytes(store)


def test_a_new_key_for_what_is_there_takes_room(store, new_request):
    first = store.trace_requests.add(new_request(force=False))
    full = Quotas(stored_max_bytes=counted_bytes(store))
    same = new_request(force=False)

    for ask in (store.trace_requests.refuse, store.trace_requests.add):
        with pytest.raises(StorageQuotaExceeded):
            ask(same, Idempotency.of("key", same), quotas=full)
    assert store.trace_requests.add(same, Idempotency.of("key", same)).id == first.id
    assert counted_bytes(store) > full.stored_max_bytes
    assert store.trace_requests.add(same, Idempotency.of("key", same), quotas=full).id == first.id
