import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Connection, MetaData, inspect, text

import migrations
from migrations.check import difference, other_documents
from service.domain.api_key import DEFAULT_TENANT
from service.domain.errors import (
    ArtifactNotFound,
    ModelNotFound,
    StorageQuotaExceeded,
    StorageUnavailable,
    TraceRequestNotFound,
)
from service.domain.idempotency import Idempotency
from service.domain.model import ModelRef
from service.domain.outcome import NotTraced, Succeeded
from service.domain.quotas import Quotas
from service.domain.trace_request import TraceRequest
from service.storage.database import Store
from service.storage.transactions import Transactions, connect
from tests.conftest import log_bytes, make_artifact, stored_bytes
from tests.service.cli.test_migrate_state import fill as fill_all
from tracehouse.artifact.blob import BlobRef
from tracehouse.errors import Failure
from tracehouse.spec.trace_spec import TraceSpec


@pytest.fixture
def connection(empty_database_url: str, tmp_path) -> Iterator[Connection]:
    """To a database with nothing in it."""
    (tmp_path / "state").mkdir()
    transactions = Transactions(connect(empty_database_url))
    with transactions.write() as connection:
        yield connection
    transactions.close()


def test_the_migrations_make_the_tables(connection):
    assert difference(connection) != ""

    migrations.upgrade(connection)

    assert difference(connection) == ""


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ("ALTER TABLE models DROP COLUMN last_revision", "last_revision"),
        ("ALTER TABLE models ADD COLUMN surplus TEXT", "surplus"),
        ("DROP INDEX ix_trace_requests_tenant_created_at_id", "ix_trace_requests_tenant_created_at_id"),
        ("DROP TABLE aliases", "aliases"),
    ],
)
def test_what_the_migrations_leave_out_is_found(connection, change, missing):
    migrations.upgrade(connection)

    connection.execute(text(change))

    assert missing in difference(connection)


def test_an_upgrade_of_what_is_up_to_date_changes_nothing(connection):
    migrations.upgrade(connection)
    connection.execute(
        text("INSERT INTO models (tenant, name, last_version, last_revision) VALUES ('ours', 'net', 1, 1)")
    )

    migrations.upgrade(connection)

    assert connection.scalar(text("SELECT count(*) FROM models")) == 1


def test_the_newest_revision_is_the_one_that_is_stored(connection):
    migrations.upgrade(connection)

    assert inspect(connection).has_table("alembic_version")
    assert connection.scalar(text("SELECT version_num FROM alembic_version")) == migrations.HEAD


@pytest.fixture
def newer_release(monkeypatch, tmp_path) -> Callable[[Connection, str], None]:
    """Bring the tables to revision 9999, whose step has these lines, as the release does that has it."""

    def upgrade(connection: Connection, lines: str) -> None:
        step = f'revision = "9999"\ndown_revision = "{migrations.HEAD}"\n{lines}\ndef upgrade(): ...\n'
        steps = tmp_path / "newer"
        shutil.copytree(migrations.HERE, steps)
        (steps / "versions" / "9999_next.py").write_text(step)
        with monkeypatch.context() as newer:
            newer.setattr(migrations, "HERE", steps)
            newer.setattr(migrations, "HEAD", "9999")
            migrations.upgrade(connection, "9999")

    return upgrade


def test_a_release_uses_tables_to_which_a_newer_one_has_only_added(connection, newer_release):
    newer_release(connection, "adds_only = True")

    migrations.require_usable(connection)
    assert migrations.upgrade(connection) == "9999"
    assert migrations.find_revision(connection) == "9999"


def test_a_release_does_not_use_tables_that_a_newer_one_has_changed(connection, newer_release):
    migrations.upgrade(connection)
    migrations.require_usable(connection)

    newer_release(connection, "")

    for use in (migrations.require_usable, migrations.upgrade):
        with pytest.raises(StorageUnavailable, match="a newer release has changed the database"):
            use(connection)


def test_where_no_oldest_release_is_noted_it_is_that_of_the_tables(connection, newer_release):
    newer_release(connection, "adds_only = True")
    connection.execute(text("DELETE FROM oldest_release"))

    with pytest.raises(StorageUnavailable, match="a newer release has changed the database"):
        migrations.require_usable(connection)


def test_documents_of_another_form_need_a_step(monkeypatch):
    assert other_documents() == ""

    monkeypatch.setattr(migrations, "find_documents", lambda: "those of an earlier release")

    assert 'documents = "' in other_documents()


SPEC = TraceSpec.model_validate(
    {
        "model": "net",
        "source": {"file": "net.py", "entrypoint": "net:Net"},
        "example_inputs": [1.0],
    }
)
FILES = {"net.py": BlobRef(digest="sha256:" + "1" * 64, byte_size=1000)}
ARTIFACT = make_artifact(archive=BlobRef(digest="sha256:" + "2" * 64, byte_size=20_000))
SUBMITTED = TraceRequest.new(SPEC, FILES, torch_version="2", tenant=DEFAULT_TENANT)
MADE_AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def first_release(empty_database_url: str, tmp_path) -> None:
    """A database that the first release left: a model, traced twice, with an alias."""
    (tmp_path / "state").mkdir()
    transactions = Transactions(connect(empty_database_url))
    with transactions.write() as connection:
        migrations.upgrade(connection, "0001")
        fill(connection)
    transactions.close()


def fill(connection: Connection) -> None:
    tables = MetaData()
    tables.reflect(connection)

    def insert(table: str, **row: Any) -> None:
        connection.execute(tables.tables[table].insert().values(row))

    artifacts = f'[{{"device": "cpu", "digest": "{ARTIFACT.digest}"}}]'
    for version, request_id in enumerate((SUBMITTED.id, "again"), 1):
        insert(
            "trace_requests", id=request_id, content=SUBMITTED.content, pool="cpu", state="succeeded", stage="done",
            progress=1.0, attempt=1, faults=0, events=2, verdict="verified", model_name="net", model_version=version,
            artifacts=artifacts, findings="[]", created_at=MADE_AT.replace(day=version),
        )  # fmt: skip
        files = "{" + f'"net.py": {FILES["net.py"].model_dump_json()}' + "}"
        insert("submissions", request_id=request_id, spec=SPEC.model_dump_json(), files=files)
        for seq, kind, data in ((1, "log", '{"text": "hello"}'), (2, "end", "{}")):
            insert("events", request_id=request_id, seq=seq, attempt=1, kind=kind, data=data, created_at=MADE_AT)
    key = Idempotency.of("key", SUBMITTED)
    insert("idempotency_keys", key="key", content=key.content, request_id=SUBMITTED.id, created_at=MADE_AT)
    insert("artifacts", digest=ARTIFACT.digest, manifest=ARTIFACT.manifest().decode(), created_at=MADE_AT)
    insert("models", name="net", last_version=5, last_revision=7)
    for version, request_id in enumerate((SUBMITTED.id, "again"), 1):
        insert(
            "model_versions", name="net", version=version, artifacts=f'{{"cpu": "{ARTIFACT.digest}"}}',
            verdict="verified", trace_request=request_id, created_at=MADE_AT,
        )  # fmt: skip
    insert("aliases", name="net", alias="prod", version=1, revision=7)


@pytest.fixture
def upgraded(first_release, empty_database_url: str, blob_url: str) -> Iterator[Store]:
    store = Store.open(empty_database_url, blob_url)
    yield store
    store.close()


def test_what_the_first_release_kept_is_the_default_tenants(upgraded):
    request = upgraded.trace_requests.get(DEFAULT_TENANT, SUBMITTED.id)
    model = upgraded.models.get(DEFAULT_TENANT, "net")

    assert (request.spec, request.files, request.model.version) == (SPEC, FILES, 1)
    assert (request.created_at, request.tenant) == (MADE_AT.replace(day=1), DEFAULT_TENANT)
    assert [status.id for status in upgraded.trace_requests.list(DEFAULT_TENANT, 10).items] == ["again", SUBMITTED.id]
    assert [event.seq for event in upgraded.events.after(DEFAULT_TENANT, SUBMITTED.id, 0, 10)] == [1, 2]
    assert [*upgraded.events.log(DEFAULT_TENANT, SUBMITTED.id)] == ["hello"]
    assert upgraded.artifacts.get(DEFAULT_TENANT, ARTIFACT.digest) == ARTIFACT
    assert [(version.version, version.trace_request) for version in model.versions] == [(1, SUBMITTED.id), (2, "again")]
    assert [version.buckets for version in model.versions] == [[], []]
    assert [(alias.alias, alias.version, alias.revision) for alias in model.aliases] == [("prod", 1, 7)]
    assert upgraded.models.resolve(DEFAULT_TENANT, ModelRef.parse("net@prod")).created_at == MADE_AT
    assert [version.promotion for version in model.versions] == [None, None]


def test_what_answered_in_the_first_release_goes_on_answering(upgraded):
    assert upgraded.models.resolve(DEFAULT_TENANT, ModelRef.parse("net")).version == 2
    assert upgraded.models.get(DEFAULT_TENANT, "net").default_version == 2
    assert upgraded.models.promote(DEFAULT_TENANT, "net", 1) == 2
    assert upgraded.models.resolve(DEFAULT_TENANT, ModelRef.parse("net")).version == 1


def test_what_the_first_release_kept_is_nobody_elses(upgraded):
    with pytest.raises(TraceRequestNotFound):
        upgraded.trace_requests.get("other", SUBMITTED.id)
    with pytest.raises(ArtifactNotFound):
        upgraded.artifacts.get("other", ARTIFACT.digest)
    with pytest.raises(ModelNotFound):
        upgraded.models.get("other", "net")


def test_keys_and_content_of_the_first_release_still_stand_for_their_requests(upgraded):
    again = TraceRequest.new(SPEC, FILES, torch_version="2", tenant=DEFAULT_TENANT)

    assert upgraded.trace_requests.add(again, Idempotency.of("key", again)).id == SUBMITTED.id
    assert upgraded.trace_requests.add(again).id == "again"


def test_numbers_of_the_first_release_are_not_given_again(upgraded):
    forced = SPEC.model_copy(update={"force": True})
    request = TraceRequest.new(forced, FILES, torch_version="2", tenant=DEFAULT_TENANT)
    upgraded.trace_requests.add(request)
    upgraded.trace_requests.claim(request.id)
    upgraded.trace_requests.finish(request.id, 1, Succeeded.of(forced, [ARTIFACT]))

    assert upgraded.trace_requests.get(DEFAULT_TENANT, request.id).model.version == 6
    assert upgraded.models.put_alias(DEFAULT_TENANT, "net", "next", 6, None).revision == 8


def test_bytes_that_the_first_release_kept_count(upgraded):
    """What was submitted and what the tables have, twice; the artifact that both produced, once."""
    forced = SPEC.model_copy(update={"force": True})
    request = TraceRequest.new(forced, FILES, torch_version="2", tenant=DEFAULT_TENANT)

    with pytest.raises(StorageQuotaExceeded) as refused:
        upgraded.trace_requests.add(request, quotas=Quotas(stored_max_bytes=1))

    submitted_bytes = len(SPEC.model_dump_json()) + 1000
    facts = refused.value.facts
    assert 2 * submitted_bytes + 20_000 + 2 * 800 < facts["stored_bytes"] < 2 * submitted_bytes + 20_000 + 2 * 2_000


def test_the_tables_of_the_first_release_become_those_of_a_new_database(first_release, empty_database_url: str):
    transactions = Transactions(connect(empty_database_url))
    with transactions.write() as connection:
        migrations.upgrade(connection)

        assert difference(connection) == ""
        assert not [name for name in inspect(connection).get_table_names() if name.endswith("_before")]
        archives = connection.scalars(text("SELECT archive FROM artifact_owners")).all()
        assert archives == [ARTIFACT.archive.digest]
    transactions.close()


def test_what_an_earlier_release_left_is_counted_as_what_is_new(empty_database_url: str, blob_url: str, tmp_path):
    """Brought back and up again, a database says what the service counted itself."""
    (tmp_path / "state").mkdir()
    store = Store.open(empty_database_url, blob_url)
    sent = [TraceRequest.new(SPEC, FILES, torch_version="2", tenant=tenant) for tenant in ("first", "second")]
    for request in sent:
        store.trace_requests.add(request, Idempotency.of("key", request))
        store.trace_requests.claim(request.id)
        store.events.append(request.id, "log", {"text": "\0ü" * 1_000})
    store.trace_requests.finish(sent[0].id, 1, Succeeded.of(SPEC, [ARTIFACT]))
    failed = NotTraced(failure=Failure(slug="model-raised", detail="boom"))
    store.trace_requests.finish(sent[1].id, 1, failed)
    store.models.put_alias("first", SPEC.model, "ü", 1, None)
    counted = [stored_bytes(store, request.tenant) for request in sent]
    logged = [log_bytes(store, request.tenant) for request in sent]
    store.close()

    transactions = Transactions(connect(empty_database_url))
    with transactions.write() as connection:
        migrations.downgrade(connection, "0026")
        migrations.upgrade(connection)
        entries = text("SELECT SUM(stored_bytes) FROM audit_log WHERE tenant = :tenant")
        assert [connection.scalar(entries, {"tenant": request.tenant}) for request in sent] == logged
    transactions.close()

    transactions = Transactions(connect(empty_database_url))
    with transactions.write() as connection:
        migrations.downgrade(connection, "0007")
        before = [_stored_bytes(connection, request.id) for request in sent]
    with transactions.write() as connection:
        migrations.upgrade(connection)
        assert [_stored_bytes(connection, request.id, request.tenant) for request in sent] == counted
    transactions.close()

    assert before == [sent[0].submitted_bytes + ARTIFACT.stored_bytes, sent[1].submitted_bytes]


def test_replicas_that_are_one_are_left_to_the_service_and_others_stay(empty_database_url: str, tmp_path):
    """A release back, all have a number again."""
    (tmp_path / "state").mkdir()
    transactions = Transactions(connect(empty_database_url))
    with transactions.write() as connection:
        migrations.upgrade(connection, "0028")
        for name, replicas in (("one", 1), ("two", 2)):
            row = {"name": name, "replicas": replicas}
            columns = "INSERT INTO models (tenant, name, last_version, last_revision, replicas)"
            connection.execute(text(f"{columns} VALUES ('ours', :name, 1, 1, :replicas)"), row)
        found = text("SELECT replicas FROM models ORDER BY name")

        migrations.upgrade(connection)
        assert connection.scalars(found).all() == [None, 2]
        migrations.downgrade(connection, "0028")
        assert connection.scalars(found).all() == [1, 2]
    transactions.close()


def _stored_bytes(connection: Connection, request_id: str, tenant: str | None = None) -> int:
    """What the request counts; with a tenant, also what the tenant's artifacts count."""
    query = text("SELECT stored_bytes FROM trace_requests WHERE id = :id")
    of_request = connection.scalars(query, {"id": request_id}).one()
    if tenant is None:
        return of_request
    query = text("SELECT COALESCE(SUM(stored_bytes), 0) FROM artifact_owners WHERE tenant = :tenant")
    return of_request + int(connection.scalars(query, {"tenant": tenant}).one())


def test_each_step_back_and_forth_keeps_what_both_releases_have(empty_database_url: str, blob_url: str, tmp_path):
    """Of a database with all kinds of rows. The step before tenants is the next test's."""
    (tmp_path / "state").mkdir()
    with closing(Store.open(empty_database_url, blob_url)) as store:
        fill_all(store)
    steps = sorted(path.name[:4] for path in migrations.HERE.glob("versions/0*.py"))
    transactions = Transactions(connect(empty_database_url))
    for before, after in reversed([*pairwise(steps[steps.index("0002") :])]):
        with transactions.write() as connection:
            newer = _rows(connection)
            migrations.downgrade(connection, before)
            older = _rows(connection)
        with transactions.write() as connection:
            migrations.upgrade(connection, after)
            again = _rows(connection)
            migrations.downgrade(connection, before)
        assert newer.keys() == again.keys(), after
        for table in older.keys() & newer.keys():
            both = older[table].columns & newer[table].columns
            assert older[table].only(both) or not newer[table].only(both), (after, table)
            assert again[table].only(both) == newer[table].only(both), (after, table)
    with transactions.write() as connection:
        assert migrations.find_revision(connection) == "0002"
        migrations.upgrade(connection)
        assert difference(connection) == ""
    transactions.close()


def test_what_the_first_release_left_is_as_it_was_after_all_steps_there_and_back(
    first_release, empty_database_url: str
):
    transactions = Transactions(connect(empty_database_url))
    with transactions.write() as connection:
        left = _rows(connection)
        migrations.upgrade(connection)
    with transactions.write() as connection:
        migrations.downgrade(connection, "0001")
        back = _rows(connection)
        migrations.upgrade(connection)
        assert difference(connection) == ""
    with transactions.write() as connection:
        migrations.downgrade(connection, "base")
        assert _rows(connection) == {}
    transactions.close()

    assert back.keys() == left.keys()
    for table, rows in left.items():
        columns = rows.columns - {"spec"}  # whose members may be in another order
        assert (back[table].columns, back[table].only(columns)) == (rows.columns, rows.only(columns)), table
    specs = [TraceSpec.model_validate_json(row["spec"]) for row in back["submissions"].rows]
    assert specs == [SPEC, SPEC]


def test_nothing_of_other_tenants_is_lost_on_the_way_back_to_one(empty_database_url: str, blob_url: str, tmp_path):
    (tmp_path / "state").mkdir()
    with closing(Store.open(empty_database_url, blob_url)) as store:
        store.trace_requests.add(TraceRequest.new(SPEC, FILES, torch_version="2", tenant="another"))
    transactions = Transactions(connect(empty_database_url))

    with pytest.raises(ValueError, match="rows of other tenants"), transactions.write() as connection:
        migrations.downgrade(connection, "0001")

    with transactions.read() as connection:
        assert migrations.find_revision(connection) == migrations.HEAD
    transactions.close()


@dataclass(frozen=True)
class _Rows:
    columns: set[str]
    rows: list[dict[str, Any]]

    def only(self, columns: set[str]) -> list[str]:
        return sorted(str([(name, row[name]) for name in sorted(columns)]) for row in self.rows)


def _rows(connection: Connection) -> dict[str, _Rows]:
    """What is in each table, without what migrations themselves note."""
    found = MetaData()
    found.reflect(connection)
    return {
        name: _Rows({*table.columns.keys()}, [dict(row) for row in connection.execute(table.select()).mappings()])
        for name, table in found.tables.items()
        if name not in ("alembic_version", "oldest_release")
    }


def test_what_was_made_before_signatures_is_unsigned(empty_database_url: str, blob_url: str, tmp_path):
    (tmp_path / "state").mkdir()
    store = Store.open(empty_database_url, blob_url)
    request = TraceRequest.new(SPEC, FILES, torch_version="2", tenant="first")
    store.trace_requests.add(request)
    store.trace_requests.claim(request.id)
    store.trace_requests.finish(request.id, 1, Succeeded.of(SPEC, [ARTIFACT]).signed(lambda _: "signed"))
    assert store.artifacts.signature("first", ARTIFACT.digest) == "signed"
    store.close()

    transactions = Transactions(connect(empty_database_url))
    with transactions.write() as connection:
        migrations.downgrade(connection, "0009")
    transactions.close()
    store = Store.open(empty_database_url, blob_url)

    assert store.artifacts.get("first", ARTIFACT.digest) == ARTIFACT
    assert store.artifacts.signature("first", ARTIFACT.digest) is None
    store.close()
