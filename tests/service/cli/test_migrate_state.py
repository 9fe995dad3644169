"""`tracehouse migrate-state` brings a state directory's rows and files to where several processes reach them."""

import fcntl
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import Connection, Text, select, text, type_coerce
from typer.testing import CliRunner

import migrations
from migrations.check import empty_schema
from service.cli import app
from service.domain.api_key import Scope
from service.domain.idempotency import Idempotency
from service.domain.outcome import NotTraced, Succeeded
from service.domain.trace_request import State, TraceRequest
from service.storage import tables
from service.storage.blob_cache import CacheLimits
from service.storage.database import Store, migrate
from service.storage.local_blobs import LocalBlobs
from service.storage.transactions import Transactions, connect
from tests.conftest import TENANT, NewStore, damage, keep, make_artifact
from tests.s3_server import Bucket
from tests.service.conftest import POSTGRES_URL
from tracehouse.artifact.blob import BlobRef
from tracehouse.errors import Failure
from tracehouse.spec.trace_spec import TraceSpec

needs_postgres = pytest.mark.skipif(POSTGRES_URL is None, reason="there is no PostgreSQL: TEST_POSTGRES_URL names one")
TRACEHOUSE = Path(sys.executable).with_name("tracehouse")
NOWHERE = "postgresql://nobody:pa55word@127.0.0.1:1/nothing"


@pytest.fixture
def target() -> Iterator[str]:
    """The URL of an empty PostgreSQL."""
    assert POSTGRES_URL is not None
    with empty_schema(POSTGRES_URL) as url:
        yield url


@pytest.fixture
def state(new_store: NewStore, tmp_path: Path) -> Path:
    """A state directory in which somebody has traced, and whose service was killed while it ran a request."""
    state = tmp_path / "state"
    state.mkdir()
    with closing(new_store(state)) as store:
        fill(store)
    return state


def fill(store: Store) -> None:
    files = {"net.pt": keep(store.blobs, b"the uploaded weights")}
    artifact = make_artifact(**{name: keep(store.blobs, name.encode()) for name in ("archive", "printouts", "golden")})
    done = add(store, "done", files)
    store.events.append(done.id, "log", {"text": "printed ünder a \N{SNOWMAN}, and \0"})
    store.trace_requests.claim(done.id)
    assert store.trace_requests.finish(done.id, 1, Succeeded.of(done.spec, [artifact]).signed(lambda _: "signed"))
    running, failed = add(store, "running"), add(store, "failed")
    add(store, "waits")
    for one in (running, failed):
        store.trace_requests.claim(one.id)
    store.trace_requests.finish(failed.id, 1, NotTraced(failure=Failure(slug="model-raised", detail="boom")))
    store.models.put_alias(TENANT, "done", "stable", 1, None)
    store.api_keys.create("me", TENANT, [Scope.READ])
    store.webhooks.create(TENANT, "https://example.com/hook")


def add(store: Store, model: str, files: dict[str, BlobRef] | None = None) -> TraceRequest:
    source = {"files": {"net.py": f"name = {model!r}"}, "entrypoint": "net:Net"}
    spec = TraceSpec.model_validate({"model": model, "source": source, "example_inputs": [1.0]})
    request = TraceRequest.new(spec, files or {}, torch_version="2", tenant=TENANT)
    store.trace_requests.add(request, Idempotency(key=model, content=request.content))
    return request


def move(state: Path, database_url: str = "", files: str = "", *options: str) -> Result:
    environment = {"DATABASE_URL": database_url or None, "BLOB_URL": files or None}
    return CliRunner().invoke(app, ["migrate-state", "--state", str(state), *options], env=environment)


@contextmanager
def writing(database_url: str) -> Iterator[Connection]:
    with closing(Transactions(connect(database_url))) as transactions, transactions.write() as connection:
        yield connection


def sqlite(state: Path) -> str:
    return f"sqlite:///{state / 'tracehouse.db'}"


def rows_of(database_url: str) -> dict[str, list[dict[str, Any]]]:
    """All rows that there are, their documents as text."""
    found = {}
    with writing(database_url) as connection:
        for table in tables.metadata.sorted_tables:
            if table is tables.oldest_release:  # the migrations write it, in each database
                continue
            kinds = {one: Text() if isinstance(one.type, tables.Document) else one.type for one in table.columns}
            query = select(*(type_coerce(one, kind).label(one.name) for one, kind in kinds.items()))
            rows = [dict(row) for row in connection.execute(query).mappings()]
            found[table.name] = sorted(rows, key=lambda row: str([row[one.name] for one in table.primary_key]))
    return found


def has_nothing(database_url: str) -> bool:
    with writing(database_url) as connection:
        if migrations.find_revision(connection) is None:
            return True
    return not any(rows_of(database_url).values())


def blobs_of(directory: Path) -> dict[str, bytes]:
    return {f"sha256:{path.parent.name}{path.name}": path.read_bytes() for path in directory.glob("sha256/*/*")}


@needs_postgres
def test_all_rows_and_files_are_there_afterwards_as_they_were(state: Path, target: str, tmp_path: Path) -> None:
    files = tmp_path / "shared"
    with writing(sqlite(state)) as connection:  # as an earlier release or a fault may have left it
        connection.execute(text("UPDATE trace_requests SET findings = 'not JSON' WHERE model_name = 'failed'"))
    before = rows_of(sqlite(state))
    assert all(
        before[one]
        for one in before
        if one not in ("live_checks", "tenants", "webhook_messages", "workers", "last_turns")
    )

    ended = move(state, target, files.as_uri())

    assert ended.exit_code == 0, ended.stderr
    after = rows_of(target)
    [ran] = [one for one in before["trace_requests"] if one["state"] == State.RUNNING.value]
    [queued] = [one for one in after["trace_requests"] if one["id"] == ran["id"]]
    assert (queued["state"], queued["faults"], queued["attempt"]) == ("queued", 0, 1)
    assert queued["events"] == ran["events"] + 1  # whoever follows it is told
    [told] = [one for one in after["events"] if one not in before["events"]]
    assert (told["request_id"], told["seq"]) == (queued["id"], queued["events"])
    before["trace_requests"][before["trace_requests"].index(ran)] = queued
    after["events"].remove(told)
    assert after == before
    assert blobs_of(files) == blobs_of(state / "blobs")
    assert len(blobs_of(files)) == 4
    lines = ended.stdout.splitlines()
    assert lines[0] == f"files: 4 copied, {sum(map(len, blobs_of(files).values()))} bytes; 0 were there"
    assert lines[1].startswith(f"rows: {sum(map(len, before.values()))} copied (")
    assert "trace_requests 4" in lines[1]
    assert lines[2] == "trace requests that were running: 1 queued again"


@needs_postgres
def test_new_rows_get_numbers_after_the_old_ones(state: Path, target: str, tmp_path: Path) -> None:
    files = (tmp_path / "shared").as_uri()
    assert move(state, target, files).exit_code == 0
    highest = max(one["id"] for one in rows_of(target)["audit_log"])

    with closing(Store.open(target, files)) as store:
        store.api_keys.create("another", TENANT, [Scope.READ])
        add(store, "another")

    assert sorted(one["id"] for one in rows_of(target)["audit_log"])[-2:] == [highest + 1, highest + 2]


@needs_postgres
def test_a_dry_run_says_the_same_and_writes_nothing(state: Path, target: str, tmp_path: Path) -> None:
    files = tmp_path / "shared"

    planned = move(state, target, files.as_uri(), "--dry-run")

    assert planned.exit_code == 0, planned.stderr
    with writing(target) as connection:
        assert migrations.find_revision(connection) is None
    assert blobs_of(files) == {}
    done = move(state, target, files.as_uri())
    assert planned.stdout.replace("would be ", "") == done.stdout


@needs_postgres
def test_what_is_moved_is_printed_for_programs(state: Path, target: str, tmp_path: Path) -> None:
    files = tmp_path / "shared"
    (state / "signing").mkdir()

    planned = json.loads(move(state, target, files.as_uri(), "--dry-run", "--json").stdout)
    done = json.loads(move(state, target, files.as_uri(), "--json").stdout)

    assert (planned.pop("is_dry_run"), done.pop("is_dry_run")) == (True, False)
    assert planned == done
    copied = blobs_of(files)
    assert done["files"]["copied"] == len(copied)
    assert done["files"]["copied_bytes"] == sum(map(len, copied.values()))
    assert done["rows"]["trace_requests"] == len(rows_of(target)["trace_requests"])
    assert [*done["remaining"]] == ["signing"]


@needs_postgres
def test_a_damaged_file_is_named_and_no_row_is_moved_unless_it_may_be_left(
    state: Path, target: str, tmp_path: Path
) -> None:
    files = tmp_path / "shared"
    damaged, missing = sorted(blobs_of(state / "blobs"))[:2]
    whole = blobs_of(state / "blobs")
    with closing(Store.open(sqlite(state), (state / "blobs").as_uri())) as store:
        damage(store.blobs, damaged)
        store.blobs.remove(missing)

    for options in (("--dry-run",), ()):
        refused = move(state, target, files.as_uri(), *options)
        assert refused.exit_code == 2
        assert f"  damaged: {damaged}\n  missing: {missing}\n" in refused.stdout
        assert "No rows were moved" in refused.stderr
        assert has_nothing(target)
        document = json.loads(move(state, target, files.as_uri(), *options, "--json").stdout)
        assert (document["files"]["damaged"], document["files"]["missing"]) == ([damaged], [missing])
        assert document["rows"] is None
    assert blobs_of(files).keys() == whole.keys() - {damaged, missing}
    left = move(state, target, files.as_uri(), "--leave-damaged")

    assert left.exit_code == 0, left.stderr
    assert f"  damaged: {damaged}\n" in left.stdout
    assert len(rows_of(target)["trace_requests"]) == 4
    assert blobs_of(files).keys() == whole.keys() - {damaged, missing}


@needs_postgres
def test_what_was_cut_is_run_again_and_sends_only_the_files_that_are_not_there(
    state: Path, target: str, bucket: Bucket
) -> None:
    whole = blobs_of(state / "blobs")
    with sqlite3.connect(state / "tracehouse.db") as source:
        source.execute("UPDATE api_keys SET name = 'a' || char(0)")  # PostgreSQL takes no such text
    cut = move(state, target, bucket.url)
    assert cut.exit_code == 2
    assert "The rows were not copied: table api_keys: " in cut.stderr
    assert has_nothing(target)
    with sqlite3.connect(state / "tracehouse.db") as source:
        source.execute("UPDATE api_keys SET name = 'a'")
    first, second, *others = sorted(whole)
    bucket.remove(first)
    bucket.change(second, b"cut")
    for digest in others:  # whoever sent them again would find that
        damage(LocalBlobs(state / "blobs"), digest)

    again = move(state, target, bucket.url)

    assert again.exit_code == 0, again.stderr
    assert f"files: 2 copied, {len(whole[first]) + len(whole[second])} bytes; 2 were there" in again.stdout
    assert bucket.blobs() == whole
    assert not (state / "cache").exists()
    with closing(Store.open(target, bucket.url, CacheLimits(directory=state / "cache", max_bytes=2**30))) as store:
        assert all(store.blobs.holds(digest) for digest in whole)


@needs_postgres
def test_a_store_that_does_not_answer_is_said_and_no_row_is_moved(state: Path, target: str, bucket: Bucket) -> None:
    bucket.server.kill()

    refused = move(state, target, bucket.url)

    assert refused.exit_code == 2
    assert "Run this again" in refused.stderr
    assert has_nothing(target)


@needs_postgres
def test_a_database_with_rows_is_refused_before_a_file_is_sent(state: Path, target: str, tmp_path: Path) -> None:
    with closing(Store.open(target, (tmp_path / "other").as_uri())) as store:
        store.api_keys.create("first", TENANT, [Scope.READ])
    before = rows_of(target)

    refused = move(state, target, (tmp_path / "shared").as_uri())

    assert refused.exit_code == 2
    assert "The target database has rows already, in api_keys, audit_log" in refused.stderr
    assert rows_of(target) == before
    assert blobs_of(tmp_path / "shared") == {}


@needs_postgres
def test_of_two_that_move_to_one_database_at_once_one_does(state: Path, target: str, tmp_path: Path) -> None:
    states = [state, Path(shutil.copytree(state, tmp_path / "other"))]
    environment = os.environ | {"DATABASE_URL": target, "BLOB_URL": (tmp_path / "shared").as_uri()}

    running = [
        subprocess.Popen(
            [TRACEHOUSE, "migrate-state", "--state", one], env=environment, stderr=subprocess.PIPE, text=True
        )
        for one in states
    ]
    said = "".join(one.communicate()[1] for one in running)

    assert sorted(one.returncode for one in running) == [0, 2]
    assert "The target database has rows already" in said
    assert len(rows_of(target)["trace_requests"]) == 4


@needs_postgres
def test_tables_of_an_earlier_release_are_brought_to_this_one(state: Path, target: str, tmp_path: Path) -> None:
    migrate(target)
    with writing(target) as connection:
        migrations.downgrade(connection, "0012")

    assert move(state, target, (tmp_path / "shared").as_uri()).exit_code == 0

    assert len(rows_of(target)["trace_requests"]) == 4


@needs_postgres
def test_the_target_of_a_newer_release_is_refused(state: Path, target: str, tmp_path: Path) -> None:
    migrate(target)
    with writing(target) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    refused = move(state, target, (tmp_path / "shared").as_uri())

    assert (refused.exit_code, refused.stderr) == (2, "A newer release made the tables of the target database.\n")


@needs_postgres
def test_the_state_of_another_release_is_refused(state: Path, target: str, tmp_path: Path) -> None:
    with writing(sqlite(state)) as connection:
        migrations.downgrade(connection, "0012")
    refused = move(state, target, (tmp_path / "shared").as_uri())
    assert refused.exit_code == 2
    assert f"env -u DATABASE_URL -u DATABASE_PASSWORD_FILE tracehouse migrate --state {state}\n" in refused.stderr
    with writing(sqlite(state)) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    refused = move(state, target, (tmp_path / "shared").as_uri())
    assert refused.exit_code == 2
    assert "run this with that release" in refused.stderr
    with writing(sqlite(state)) as connection:
        connection.execute(text("DROP TABLE alembic_version"))
    refused = move(state, target, (tmp_path / "shared").as_uri())
    assert (refused.exit_code, refused.stderr) == (2, f"{state / 'tracehouse.db'} has no tables of Tracehouse.\n")
    (state / "tracehouse.db").write_bytes(b"no database" * 1000)
    refused = move(state, target, (tmp_path / "shared").as_uri())
    assert refused.exit_code == 2
    assert "The database of the state directory cannot be read: file is not a database" in refused.stderr
    assert has_nothing(target)


@needs_postgres
def test_what_else_is_in_the_state_directory_is_named_with_what_to_do(state: Path, target: str, tmp_path: Path) -> None:
    for name in ("signing", "environments", "forms", "notes"):
        (state / name).mkdir()

    ended = move(state, target, (tmp_path / "shared").as_uri())

    named = {line.split(":")[0].strip(): line for line in ended.stdout.splitlines() if line.startswith("  ")}
    assert sorted(named) == ["environments", "forms", "notes", "signing"]
    assert "private key" in named["signing"]
    assert "Copy it to hosts with the same Python and torch" in named["environments"]
    assert "nothing that this release put there" in named["notes"]


def test_the_state_of_a_running_service_is_refused(state: Path, tmp_path: Path) -> None:
    with (state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        refused = move(state, NOWHERE, (tmp_path / "shared").as_uri())

    assert refused.exit_code == 2
    assert "stop the service first" in refused.stderr


def test_without_a_target_it_is_said_what_to_set(state: Path, tmp_path: Path) -> None:
    for database_url in ("", f"sqlite:///{tmp_path / 'other.db'}"):
        refused = move(state, database_url, (tmp_path / "shared").as_uri())
        assert refused.exit_code == 2
        assert "Set DATABASE_URL" in refused.stderr
    refused = move(state, NOWHERE)
    assert refused.exit_code == 2
    assert "Set BLOB_URL to where the files are to go" in refused.stderr
    assert (state / "blobs").as_uri() in refused.stderr


def test_a_directory_without_state_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    refused = move(tmp_path, NOWHERE, (tmp_path / "shared").as_uri())

    assert refused.exit_code == 2
    assert f"There is no Tracehouse state in {tmp_path}" in refused.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_database_that_does_not_answer_is_said_without_the_password(state: Path, tmp_path: Path) -> None:
    refused = move(state, NOWHERE, (tmp_path / "shared").as_uri())

    assert refused.exit_code == 2
    assert "The target database cannot be used: connection failed" in refused.stderr
    assert "pa55word" not in refused.stderr
