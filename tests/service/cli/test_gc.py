"""`tracehouse gc` says what it removes, and with `--dry-run` removes nothing."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import migrations
from service.cli import app
from service.domain.outcome import NotTraced
from service.domain.trace_request import TraceRequest
from service.storage import retention
from service.storage.database import Store
from service.storage.file_holds import FileHolds
from tests.conftest import TENANT, keep
from tracehouse.errors import Failure
from tracehouse.spec.trace_spec import TraceSpec


def gc(state: Path, *options: str, **environment: str) -> Result:
    return CliRunner().invoke(app, ["gc", "--state", str(state), *options], env=environment)


@pytest.fixture
def ended(store: Store) -> TraceRequest:
    source = {"files": {"net.py": ""}, "entrypoint": "net:Net"}
    spec = TraceSpec.model_validate({"model": "net", "source": source, "example_inputs": [1.0]})
    request = TraceRequest.new(spec, {}, torch_version="2", tenant=TENANT)
    store.trace_requests.add(request)
    store.trace_requests.claim(request.id)
    store.trace_requests.finish(request.id, 1, NotTraced(failure=Failure(slug="model-raised", detail="boom")))
    return request


def test_a_dry_run_says_what_would_go_and_how_much_and_removes_nothing(
    store: Store, ended: TraceRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_LEAST_AGE", timedelta())
    orphan = keep(store.blobs, b"orphan")
    rules = {"REQUESTS_KEPT_DAYS": "0.00000001", "FILES_KEPT_DAYS": "0"}

    planned = gc(tmp_path, "--dry-run", **rules)

    assert planned.exit_code == 0, planned.stderr
    first, title, *lines = planned.stdout.splitlines()
    assert first.startswith(f"trace request {ended.id} of {TENANT}, ")
    assert first.endswith(" bytes (age)")
    assert title == "would remove:"
    assert lines[-1] == "  files: 1, 6 bytes of the disk"
    assert store.trace_requests.status(TENANT, ended.id)
    assert store.blobs.holds(orphan.digest)

    removed = gc(tmp_path, **rules)

    assert removed.stdout == planned.stdout.replace("would remove", "removed")
    assert store.trace_requests.list(TENANT, 10).items == []
    assert not store.blobs.holds(orphan.digest)


def test_where_others_store_files_all_the_time_it_says_what_is_gone_and_that_files_are_left(
    store: Store, ended: TraceRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = FileHolds.remove
    monkeypatch.setattr(FileHolds, "remove", lambda holds: remove(holds, patience_s=0.05))

    with store.retention._holds.write():
        swept = gc(tmp_path, REQUESTS_KEPT_DAYS="0.00000001")

    assert swept.exit_code == 2
    assert swept.stdout.splitlines()[0].startswith(f"trace request {ended.id} of {TENANT}, ")
    assert swept.stderr.startswith("Files are being stored all the time")


def test_without_settings_nothing_goes(store: Store, ended: TraceRequest, tmp_path: Path) -> None:
    assert gc(tmp_path).stdout.splitlines()[0] == "removed:"
    assert store.trace_requests.status(TENANT, ended.id)


def test_where_there_is_no_service_it_says_so_and_makes_none(tmp_path: Path) -> None:
    ended = gc(tmp_path / "elsewhere")

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("There is no Tracehouse state in ")
    assert not (tmp_path / "elsewhere").exists()


def test_what_would_go_is_printed_for_programs(store: Store, ended: TraceRequest, tmp_path: Path) -> None:
    planned = json.loads(gc(tmp_path, "--dry-run", "--json", REQUESTS_KEPT_DAYS="0.00000001").stdout)

    assert planned["is_dry_run"] is True
    assert [one["id"] for one in planned["requests"]] == [ended.id]


def test_nothing_is_removed_where_a_newer_release_may_name_more(
    store: Store, ended: TraceRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_LEAST_AGE", timedelta())
    monkeypatch.setattr(migrations, "HEAD", "0000")

    refused = gc(tmp_path, REQUESTS_KEPT_DAYS="0.00000001")

    assert refused.exit_code == 2
    assert "Nothing is removed: a newer release has added to the tables" in refused.stderr
    monkeypatch.undo()
    assert store.trace_requests.status(TENANT, ended.id)
