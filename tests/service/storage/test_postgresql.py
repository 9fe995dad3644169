"""A PostgreSQL that is frozen, and processes of the service that are: nobody waits for ever."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from time import sleep

import pytest
from sqlalchemy import Connection, text

import migrations
from service.domain.errors import StorageUnavailable
from service.storage import postgresql
from service.storage.database import Store
from service.storage.transactions import Transactions, connect
from tests.conftest import wait_until
from tests.postgres_server import PostgresServer, why_there_is_none

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_there_is_none() is not None, reason=f"no PostgreSQL of its own: {why_there_is_none()}"),
]
FOR_EVER = text("SELECT pg_sleep(3600)")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def transactions(server: PostgresServer) -> Iterator[Transactions]:
    transactions = Transactions(connect(server.url))
    yield transactions
    transactions.close()


def test_a_statement_that_takes_too_long_is_ended_by_the_database(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_LIMITS", "SELECT set_config('statement_timeout', '100ms', false)")
    transactions = Transactions(connect(server.url))

    with pytest.raises(StorageUnavailable) as raised, transactions.read() as connection:
        connection.execute(FOR_EVER)

    assert "statement timeout" in str(raised.value.__cause__)
    with transactions.read() as connection:
        assert connection.scalar(text("SELECT 1")) == 1
    transactions.close()


def test_who_reads_all_of_the_database_may_think_between_two_statements(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = "SELECT set_config('idle_in_transaction_session_timeout', '100ms', false)"
    monkeypatch.setattr(postgresql, "_LIMITS", limits)
    transactions = Transactions(connect(server.url))

    def think(reading: AbstractContextManager[Connection]) -> object:
        with reading as connection:
            connection.scalar(text("SELECT 1"))
            sleep(0.5)
            return connection.scalar(text("SELECT 2"))

    assert think(transactions.snapshot()) == 2
    with pytest.raises(StorageUnavailable):
        think(transactions.read())
    transactions.close()


def test_a_database_that_freezes_during_a_statement_is_unavailable_until_it_goes_on(
    server: PostgresServer, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_STATEMENT_S", 1)

    def ask() -> None:
        with transactions.read() as connection:
            connection.scalar(text("SELECT 1"))
            server.freeze()
            connection.execute(FOR_EVER)

    with pytest.raises(StorageUnavailable) as raised:
        ask()

    assert "no answer within" in str(raised.value.__cause__)
    server.go_on()
    with transactions.read() as connection:
        assert connection.scalar(text("SELECT 1")) == 1


def test_while_the_database_is_frozen_one_thread_waits_and_others_are_refused_at_once(
    server: PostgresServer, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_AT_ONCE_S", 1)
    with transactions.read():
        pass
    server.freeze()
    with pytest.raises(StorageUnavailable), transactions.read():
        pass
    causes: list[str] = []

    def ask() -> None:
        try:
            with transactions.read():
                causes.append("answered")
        except StorageUnavailable as error:
            causes.append(str(error.__cause__))

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.go_on()

    refused_at_once = ["is being asked again" in cause for cause in causes]
    waited = ["connection timeout" in cause for cause in causes]
    assert (len(causes), any(refused_at_once), any(waited)) == (5, True, True), causes
    wait_until(lambda: _answers(transactions))


def test_a_lock_of_a_process_that_does_nothing_more_is_given_back(
    server: PostgresServer, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a worker that is stopped in the midst of a transaction."""
    monkeypatch.setattr(
        postgresql, "_LIMITS", "SELECT set_config('idle_in_transaction_session_timeout', '100ms', false)"
    )
    stopped = Transactions(connect(server.url))
    lock = text("SELECT pg_advisory_xact_lock(1)")

    def stop_in_the_midst() -> None:
        with stopped.write() as connection:
            connection.execute(lock)
            with transactions.write() as other:
                other.execute(lock)
            connection.execute(text("SELECT 1"))  # it goes on

    with pytest.raises(StorageUnavailable):  # for all was undone
        stop_in_the_midst()
    stopped.close()


def test_migrations_take_as_long_as_they_like(
    server: PostgresServer, transactions: Transactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each lasts longer here than any statement may, and waits for a lock that another process has."""
    monkeypatch.setattr(postgresql, "_LIMITS", "SELECT set_config('statement_timeout', '100ms', false)")
    lock = text("SELECT pg_advisory_xact_lock(:number)"), {"number": migrations._ADVISORY_LOCK}
    other = Transactions(connect(server.url, is_limited=False))
    with ThreadPoolExecutor() as threads:
        with other.write() as connection:
            connection.execute(*lock)
            opening = threads.submit(Store.open, server.url, tmp_path.as_uri())
            wait_until(lambda: _somebody_waits(transactions))
            sleep(0.3)
            assert not opening.done()
        store = opening.result()

    store.ping()
    store.close()
    other.close()


def _somebody_waits(transactions: Transactions) -> bool:
    with transactions.read() as connection:
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'"
        return connection.scalar(text(waits)) == 1


def _answers(transactions: Transactions) -> bool:
    try:
        with transactions.read() as connection:
            return connection.scalar(text("SELECT 1")) == 1
    except StorageUnavailable:
        return False
