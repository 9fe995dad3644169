"""What a newer release has written: it is read where it can be, and refused by name where it cannot."""

import pytest
from pydantic import ValidationError
from sqlalchemy import text

import migrations
from service.domain.errors import ReleaseTooOld
from service.storage.transactions import Transactions, connect
from tests.conftest import TENANT

ADDED = {
    "submissions": 'UPDATE submissions SET spec = replace(spec, \'{"model":\', \'{"added":1,"model":\')',
    "sources": 'UPDATE sources SET source = replace(source, \'{"files":\', \'{"added":1,"files":\')',
    "artifacts": 'UPDATE trace_requests SET artifacts = replace(artifacts, \'{"device":\', \'{"added":1,"device":\')',
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


@pytest.mark.parametrize("where", ADDED)
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
    }[where]
    assert [read(TENANT, request.id) is not None for read in reads] == [True] * len(reads)  # nothing is new in it

    add_a_member(where)

    for read in reads:
        with pytest.raises(ReleaseTooOld) as raised:
            read(TENANT, request.id)
        assert raised.value.facts["revision"] == "9999"


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
