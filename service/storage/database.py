"""Store: rows and files behind two URLs. Blobs first, rows second, so that no row names bytes that are not there."""

from pathlib import Path
from typing import Self

from sqlalchemy import make_url, text

import migrations
from service.storage.api_keys import ApiKeys
from service.storage.artifacts import Artifacts
from service.storage.blobs import Blobs
from service.storage.events import Events
from service.storage.models import Models
from service.storage.trace_requests import TraceRequests
from service.storage.transactions import Transactions, connect


class Store:
    """Used from any thread. Every method is one transaction; any may raise StorageUnavailable."""

    def __init__(self, transactions: Transactions, blobs: Blobs) -> None:
        self._transactions = transactions
        self.changes = transactions.changes
        self.trace_requests = TraceRequests(transactions)
        self.events = Events(transactions)
        self.artifacts = Artifacts(transactions)
        self.models = Models(transactions)
        self.api_keys = ApiKeys(transactions)
        self.blobs = blobs

    @classmethod
    def open(cls, database_url: str, blob_url: str) -> Self:
        """Make what is not there yet, and bring the tables up to date."""
        transactions = open_database(database_url)
        blobs = Blobs(blob_url)
        blobs.clear_staging()
        return cls(transactions, blobs)

    def ping(self) -> None:
        """Raises StorageUnavailable."""
        with self._transactions.read() as connection:
            connection.execute(text("SELECT 1"))

    def close(self) -> None:
        self._transactions.close()


def open_database(database_url: str) -> Transactions:
    """The rows alone; they are made if they are not there yet, and their tables brought up to date."""
    file = sqlite_file(database_url)
    if file is not None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    transactions = Transactions(connect(database_url))
    with transactions.write() as connection:
        migrations.upgrade(connection)
    return transactions


def sqlite_file(database_url: str) -> Path | None:
    """The database, if it is a file."""
    url = make_url(database_url)
    return Path(url.database).absolute() if url.get_backend_name() == "sqlite" and url.database else None
