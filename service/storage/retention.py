"""Retention: what is kept no longer is removed, and so are files that nothing names. `docs/retention.md` has the rules.

Each step is a transaction of its own that looks again at what it removes. So a sweep may be killed at any moment, may
run beside others, and may run while trace requests come, run and end.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from sqlalchemy import select

from service.domain.audit import SERVICE, Actor
from service.domain.errors import (
    FilesInUse,
    TraceRequestContinued,
    TraceRequestHasVersion,
    TraceRequestNotEnded,
    TraceRequestNotFound,
)
from service.domain.retention import DueRequest, Reason, RetentionRules, Sweep
from service.storage import tables
from service.storage.artifacts import lock_artifacts
from service.storage.audit import record
from service.storage.blobs import Blobs, StoredFile
from service.storage.events import EarlyEvents, find_early_events, remove_early_events
from service.storage.file_holds import FileHolds
from service.storage.references import Owned, References, StoredRequest, by_tenant
from service.storage.releases import require_all_known
from service.storage.removal import remove_request, remove_unnamed_artifacts
from service.storage.transactions import Transactions

# However young the files are that the rules let go: the clock of this machine, or of the one that has the files, may be
# wrong, and the time of a file is that of the kernel's last tick. Chosen: clocks that are set by NTP differ by less.
_LEAST_AGE = timedelta(minutes=5)
_IN_USE = (TraceRequestNotFound, TraceRequestNotEnded, TraceRequestHasVersion, TraceRequestContinued)


@dataclass(frozen=True)
class _DueRows:
    """The rows that are kept no longer, what unnamed artifacts count, and the files that all other rows name."""

    requests: list[DueRequest]
    artifacts: dict[Owned, int]
    events: list[EarlyEvents]
    named_files: set[str]


class Retention:
    def __init__(self, transactions: Transactions, blobs: Blobs, holds: FileHolds) -> None:
        self._transactions = transactions
        self._blobs = blobs
        self._holds = holds

    def plan(self, rules: RetentionRules) -> Sweep:
        """Return what a sweep would remove now. Nothing is changed. Raises what `sweep` does."""
        now = datetime.now(UTC)
        due = self._find_due(rules, now)
        files = self._find_files(due.named_files, _files_before(now, rules))
        return _sum_up(due.requests, due.artifacts, due.events, [*files])

    def sweep(self, rules: RetentionRules, *, by: Actor = SERVICE) -> Sweep:
        """Remove what is kept no longer, and return what that was. Raises StorageUnavailable, FilesUnavailable
        and ReleaseTooOld.

        If others store files all the time, the files that are left wait for the next sweep.
        """
        now = datetime.now(UTC)
        due = self._find_due(rules, now)
        requests = [one for one in due.requests if self._remove_request(one, by)]
        artifacts = self._remove_artifacts(due.artifacts)
        events = [self._remove_events(one) for one in due.events]
        files: list[StoredFile] = []
        are_files_in_use = False
        try:
            for removed in self._remove_files(rules):
                files += removed
        except FilesInUse:
            are_files_in_use = True
        self._blobs.clear_staging()
        self._blobs.clear_uploads()
        return _sum_up(requests, artifacts, events, files, are_files_in_use=are_files_in_use)

    def _find_due(self, rules: RetentionRules, now: datetime) -> _DueRows:
        with self._transactions.snapshot() as connection:
            require_all_known(connection)
            references = References(connection)
            requests = _find_due_requests(references, rules, now)
            dropped = {one.id for one in requests}
            early = [] if rules.events_s is None else find_early_events(connection, _before(now, rules.events_s))
            return _DueRows(
                requests=requests,
                artifacts={one: references.owned_bytes[one] for one in references.unnamed_artifacts()},
                events=[one for one in early if one.request_id not in dropped],
                named_files=references.named_files(),
            )

    def _remove_request(self, request: DueRequest, by: Actor) -> bool:
        """Remove the request; False if it is gone, or needed by now."""
        with suppress(*_IN_USE):
            with self._transactions.write() as connection:
                remove_request(connection, request.tenant, request.id)
                record(connection, by, request.tenant, "trace.delete", request.id, reason=request.reason)
            return True
        return False

    def _remove_artifacts(self, due: dict[Owned, int]) -> dict[Owned, int]:
        """Remove those that nothing names still; return those that are gone, some of them with their requests."""
        for tenant, digest in due:
            with self._transactions.write() as connection:
                lock_artifacts(connection, tenant)
                remove_unnamed_artifacts(connection, tenant, [digest])
        owner = tables.artifact_owners.c
        with self._transactions.read() as connection:
            left = {(row.tenant, row.digest) for row in connection.execute(select(owner.tenant, owner.digest))}
        return {one: byte_size for one, byte_size in due.items() if one not in left}

    def _remove_events(self, due: EarlyEvents) -> EarlyEvents:
        with self._transactions.write() as connection:
            return remove_early_events(connection, due.request_id)

    def _remove_files(self, rules: RetentionRules) -> Iterator[list[StoredFile]]:
        """Remove the files that nothing names, some at a time, and yield those that are gone. Raises FilesInUse."""
        # Whoever stores files now has rows that name them before this is passed; whoever begins later makes them young.
        with self._holds.remove():
            before = _files_before(datetime.now(UTC), rules)
        with self._transactions.snapshot() as connection:
            require_all_known(connection)  # it may have been changed since the sweep began
            named = References(connection).named_files()
        due = self._find_files(named, before)
        while batch := [*islice(due, self._blobs.removed_at_once)]:
            with self._holds.remove():
                removed = [one for one in batch if self._remove_file(one, before)]
            yield removed

    def _remove_file(self, file: StoredFile, written_before: datetime) -> bool:
        if not self._is_older(file, written_before):
            return False
        self._blobs.remove(file.digest)
        return True

    def _find_files(self, named: set[str], written_before: datetime) -> Iterator[StoredFile]:
        """Yield the files that are not among the named ones, and that nobody has written since then."""
        for file in self._blobs.files():
            if file.digest not in named and self._is_older(file, written_before):
                yield file

    def _is_older(self, file: StoredFile, than: datetime) -> bool:
        written_at = self._blobs.written_at(file.digest)
        return written_at is not None and written_at < than


def _find_due_requests(references: References, rules: RetentionRules, now: datetime) -> list[DueRequest]:
    """Return the requests that are kept no longer. Nothing of them is named any more in `references`."""
    due: list[DueRequest] = []
    if rules.requests_s is not None:
        before = _before(now, rules.requests_s)
        for request in filter(references.is_removable, references.requests):
            if request.ended_at is not None and request.ended_at < before:
                references.drop(request)
                due.append(_due(request, "age"))
    if rules.tenant_max_bytes is not None:
        old = {one.id for one in due}
        left = by_tenant(one for one in references.requests if one.id not in old)
        for tenant, requests in left.items():
            due += _find_over_quota(references, tenant, requests, rules.tenant_max_bytes)
    return due


def _find_over_quota(
    references: References, tenant: str, requests: Sequence[StoredRequest], max_bytes: int
) -> Iterator[DueRequest]:
    """Yield the tenant's oldest requests without which it has stored no more than so much."""
    unnamed = references.unnamed_artifacts()
    stored = sum(one.stored_bytes for one in requests)
    stored += sum(size for one, size in references.owned_bytes.items() if one[0] == tenant and one not in unnamed)
    for request in requests:
        if stored <= max_bytes:
            return
        if references.is_removable(request):
            stored -= request.stored_bytes + references.drop(request)
            yield _due(request, "quota")


def _due(request: StoredRequest, reason: Reason) -> DueRequest:
    return DueRequest(id=request.id, tenant=request.tenant, reason=reason, stored_bytes=request.stored_bytes)


def _files_before(now: datetime, rules: RetentionRules) -> datetime:
    """Return the time before which a file was written that is removed if nothing names it."""
    return min(_before(now, rules.files_s), now - _LEAST_AGE)


def _before(now: datetime, kept_s: float) -> datetime:
    return now - timedelta(seconds=kept_s)


def _sum_up(
    requests: list[DueRequest],
    artifacts: dict[Owned, int],
    events: list[EarlyEvents],
    files: list[StoredFile],
    *,
    are_files_in_use: bool = False,
) -> Sweep:
    return Sweep(
        requests=requests,
        artifacts=len(artifacts),
        artifact_bytes=sum(artifacts.values()),
        events=sum(one.events for one in events),
        event_bytes=sum(one.byte_size for one in events),
        files=len(files),
        file_bytes=sum(one.byte_size for one in files),
        are_files_in_use=are_files_in_use,
    )
