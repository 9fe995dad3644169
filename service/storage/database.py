"""The store: rows and files behind two URLs. Blobs are written before rows, so that no row names missing bytes."""

from contextlib import closing
from pathlib import Path
from typing import Self

from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

import migrations
from service.domain.errors import StorageUnavailable
from service.storage.allowances import Allowances
from service.storage.api_keys import ApiKeys
from service.storage.artifacts import Artifacts
from service.storage.audit import AuditLog
from service.storage.blob_cache import CacheLimits
from service.storage.blob_places import open_blobs
from service.storage.blobs import Blobs
from service.storage.events import Events
from service.storage.figures import Figures
from service.storage.file_holds import FileHolds
from service.storage.further_checks import FurtherChecks
from service.storage.live_checks import LiveChecks
from service.storage.models import Models
from service.storage.retention import Retention
from service.storage.tenants import Tenants
from service.storage.trace_requests import TraceRequests
from service.storage.transactions import Transactions, connect
from service.storage.turns import WorkerTurns
from service.storage.webhooks import Webhooks


class Store:
    """Everything that is stored. Its methods may be called from any thread; each is one transaction.

    Any of them may raise StorageUnavailable.
    """

    def __init__(self, transactions: Transactions, blobs: Blobs) -> None:
        self._transactions = transactions
        self.changes = transactions.changes
        holds = FileHolds(transactions.engine)
        self.allowances = Allowances(transactions, holds)
        self.trace_requests = TraceRequests(transactions, self.allowances)
        self.worker_turns = WorkerTurns(transactions, self.trace_requests.counts)
        self.events = Events(transactions)
        self.artifacts = Artifacts(transactions)
        self.further_checks = FurtherChecks(transactions)
        self.models = Models(transactions)
        self.live_checks = LiveChecks(transactions)
        self.api_keys = ApiKeys(transactions)
        self.tenants = Tenants(transactions)
        self.audit_log = AuditLog(transactions)
        self.webhooks = Webhooks(transactions)
        self.figures = Figures(transactions)
        self.retention = Retention(transactions, blobs, holds)
        self.blobs = blobs

    @classmethod
    def open(cls, database_url: str, blob_url: str, cache: CacheLimits | None = None) -> Self:
        """Open the store; make what is missing, and bring the tables up to date. Raises BlobUrlUnusable.

        Files that are kept elsewhere need a cache. Their place need not answer yet.
        """
        blobs = open_blobs(blob_url, cache)
        transactions = open_database(database_url)
        blobs.clear_staging()
        return cls(transactions, blobs)

    @property
    def is_shared(self) -> bool:
        """Whether processes on several hosts may use the database at a time."""
        return self._transactions.is_shared

    def ping(self) -> None:
        """Raises StorageUnavailable if the database does not answer, or is that of a newer release."""
        with self._transactions.read() as connection:
            migrations.require_usable(connection)

    def close(self) -> None:
        self._transactions.close()


class NotMigrated(Exception):
    """The database cannot be reached, or not changed."""


def open_database(database_url: str) -> Transactions:
    """Open the database alone; make it if it is missing, and bring its tables up to date."""
    transactions = _connect(database_url)
    with transactions.read() as connection:
        is_upgraded = migrations.find_revision(connection) == migrations.HEAD
    if not is_upgraded:
        # Such steps take as long as they need.
        with closing(_connect(database_url, is_limited=False)) as patient, patient.write() as connection:
            migrations.upgrade(connection)
    return transactions


def migrate(database_url: str) -> str | None:
    """Bring the database's tables up to date; return the revision that they had, None if there were none.

    Raises NotMigrated, which says why. It has nothing of the URL.
    """
    try:
        with closing(_connect(database_url, is_limited=False)) as transactions, transactions.write() as connection:
            return migrations.upgrade(connection)
    except (StorageUnavailable, SQLAlchemyError) as error:
        raise NotMigrated(describe_fault(error)) from error


def _connect(database_url: str, *, is_limited: bool = True) -> Transactions:
    file = sqlite_file(database_url)
    if file is not None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Transactions(connect(database_url, is_limited=is_limited))


def describe_fault(error: BaseException) -> str:
    """Return the first line of what the database itself says, if it says something."""
    cause = error.__cause__ if isinstance(error, StorageUnavailable) else error
    said = str(cause.orig) if isinstance(cause, DBAPIError) else str(error)
    return said.strip().partition("\n")[0]


def sqlite_file(database_url: str) -> Path | None:
    """Return the database's path; None if it is no file."""
    url = make_url(database_url)
    return Path(url.database).absolute() if url.get_backend_name() == "sqlite" and url.database else None
