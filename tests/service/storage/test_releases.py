"""What a newer release has written: it is read where it can be, and refused by name where it cannot."""

import pytest
from pydantic import ValidationError
from sqlalchemy import text

import migrations
from service.domain.errors import ReleaseTooOld
from service.domain.model import ModelRef
from service.domain.retention import RetentionRules
from service.domain.trace_request import State
from service.storage.transactions import Transactions, connect
from tests.conftest import TENANT, keep
from tracehouse.errors import TracerLost

ADDED = {
    "submissions": 'UPDATE submissions SET spec = replace(spec, \'{"model":\', \'{"added":1,"model":\')',
    "sources": 'UPDATE sources SET source = replace(source, \'{"files":\', \'{"added":1,"files":\')',
    "artifacts": 'UPDATE trace_requests SET artifacts = replace(artifacts, \'{"device":\', \'{"added":1,"device":\')',
    "findings": "UPDATE trace_requests SET findings = '[{\"added\":1}]'",
    "promotion": "UPDATE trace_requests SET promotion = replace(promotion, '{\"pro', '{\"added\":1,\"pro')",
    "stage": "UPDATE trace_requests SET stage = 'added'",
    "verdict": "UPDATE model_versions SET verdict = 'added'",
    "environment": "UPDATE trace_requests SET environment = '{\"added\":1}'",
    "tables": "UPDATE alembic_version SET version_num = '9999'",
}


@pytest.fixture
def add_a_member(database_url):
    """Give the documents of a table a member that this release does not know."""

    def add_a_member(where: str) -> None:
        transactions = Transactions(connect(database_url))
        with transactions.write() as connection:
            assert connection.exec_driver_sql(ADDED[where]).rowcount == 1
        transactions.close()

    return add_a_member


@pytest.mark.parametrize("where", ["submissions", "sources", "artifacts", "findings", "stage"])
def test_what_a_newer_release_wrote_and_this_one_cannot_read_is_refused(
    store, register, add_a_member, monkeypatch, where
):
    with monkeypatch.context() as newer:
        newer.setattr(migrations, "HEAD", "9999")
        request = register("net")
    requests = store.trace_requests
    reads = {
        "submissions": [requests.get],
        "sources": [requests.get, requests.source],
        "artifacts": [requests.get, requests.status],
        "findings": [requests.get, requests.status],
        "stage": [requests.get, requests.status],
    }[where]
    assert [read(TENANT, request.id) is not None for read in reads] == [True] * len(reads)  # nothing is new in it

    add_a_member(where)

    for read in reads:
        with pytest.raises(ReleaseTooOld) as raised:
            read(TENANT, request.id)
        assert raised.value.facts["revision"] == "9999"


def test_what_a_newer_release_found_of_an_older_ones_request_is_refused(
    store, new_request, success, add_a_member, monkeypatch
):
    request = store.trace_requests.add(new_request("net"))
    with monkeypatch.context() as newer:
        newer.setattr(migrations, "HEAD", "9999")
        claimed = store.trace_requests.claim(request.id)
        store.trace_requests.finish(request.id, claimed.attempt, success(claimed))
    assert store.trace_requests.status(TENANT, request.id).verdict is not None

    add_a_member("artifacts")

    with pytest.raises(ReleaseTooOld):
        store.trace_requests.status(TENANT, request.id)


def test_the_end_of_an_older_releases_attempt_does_not_hide_who_took_the_request(store, new_request, monkeypatch):
    with monkeypatch.context() as newer:
        newer.setattr(migrations, "HEAD", "9999")
        request = store.trace_requests.add(new_request("net"))
        claimed = store.trace_requests.claim(request.id)

    store.trace_requests.retry(request.id, claimed.attempt, TracerLost("it was lost").failure(), attempts=1)

    ended = store.trace_requests.status(TENANT, request.id)
    assert (ended.state, ended.revision) == (State.FAILED, "9999")


@pytest.mark.parametrize("where", ["promotion", "verdict"])
def test_a_version_that_this_release_cannot_read_is_refused_once_the_tables_are_newer(
    store, register, add_a_member, where
):
    register("net")
    models = store.models
    reads = [
        lambda: models.resolve(TENANT, ModelRef.parse("net")),
        lambda: models.get(TENANT, "net"),
        lambda: models.list(TENANT, 1),
    ]
    add_a_member(where)
    for read in reads:
        with pytest.raises(ValueError, match="added"):
            read()

    add_a_member("tables")

    for read in reads:
        with pytest.raises(ReleaseTooOld) as raised:
            read()
        assert raised.value.facts["revision"] == "9999"


def test_a_request_that_cannot_be_read_is_not_cancelled(store, new_request, add_a_member, monkeypatch):
    with monkeypatch.context() as newer:
        newer.setattr(migrations, "HEAD", "9999")
        request = store.trace_requests.add(new_request("net"))
    add_a_member("environment")

    with pytest.raises(ReleaseTooOld):
        store.trace_requests.cancel(TENANT, request.id)

    assert [event.kind for event in store.events.after(TENANT, request.id, 0, 10)] == ["stage"]


def test_what_a_newer_release_may_name_is_not_removed(store, register, add_a_member):
    request = register("net")
    [made] = request.artifacts
    unnamed = keep(store.blobs, b"a file that only an added column names")
    store.models.delete(TENANT, "net")
    add_a_member("tables")

    for remove in (store.retention.plan, store.retention.sweep):
        with pytest.raises(ReleaseTooOld):
            remove(RetentionRules(requests_s=0, files_s=0))
    store.trace_requests.delete(TENANT, request.id)

    assert store.artifacts.get(TENANT, made.digest).digest == made.digest
    assert store.blobs.holds(unnamed.digest)


def test_what_this_release_wrote_and_cannot_read_is_damaged(store, register, add_a_member):
    request = register("net")

    add_a_member("submissions")

    with pytest.raises(ValidationError):
        store.trace_requests.get(TENANT, request.id)


def test_an_artifact_of_a_newer_release_is_left_to_its_idle_workers(store, register, database_url, monkeypatch):
    with monkeypatch.context() as newer:
        newer.setattr(migrations, "HEAD", "9999")
        [made] = register("net").artifacts
        transactions = Transactions(connect(database_url))
        with transactions.write() as connection:
            connection.execute(text("UPDATE artifact_owners SET idle_pool = 'cpu'"))
        transactions.close()
        assert store.further_checks.next_idle("cpu") == (TENANT, made.digest)

    assert store.further_checks.next_idle("cpu") is None
