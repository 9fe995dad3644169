"""References: what names what, read from one state of the whole database.

A file or an artifact counts as named if its digest stands anywhere in a row that may name it: too much is kept rather
than too little, whatever a later release writes there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, Text, cast, select

from service.domain.trace_request import State
from service.storage import tables
from service.storage.removal import find_digests
from service.storage.transactions import AnyRow

_request = tables.trace_requests.c
_version = tables.model_versions.c
_owner = tables.artifact_owners.c
_source = tables.sources.c
_artifact = tables.artifacts.c
_live = tables.live_checks.c
_ROWS_AT_A_TIME = 200

Owned = tuple[str, str]  # tenant and digest


class StoredRequest(NamedTuple):
    """As much of a trace request as decides whether it is kept."""

    id: str
    tenant: str
    ended_at: datetime | None  # None if it has not ended
    stored_bytes: int
    artifacts: frozenset[str]


class References:
    """The trace requests, the artifacts of each tenant, and what names them. What is dropped names nothing any more."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.owned_bytes = {
            (row.tenant, row.digest): int(row.stored_bytes)
            for row in self._rows(select(_owner.tenant, _owner.digest, _owner.stored_bytes))
        }
        self.requests: list[StoredRequest] = []  # the first that ended comes first; those that have not come last
        self._continued: set[Owned] = set()  # by requests that have not ended
        self._served_requests: set[tuple[str, str]] = set()
        self._namers: Counter[Owned] = Counter()
        self._dropped: set[str] = set()
        self._read_requests()
        self._read_versions()
        self._namers.update(self._continued)

    def is_removable(self, request: StoredRequest) -> bool:
        """Whether the request has ended, no version names it, and no request that has not ended needs it."""
        is_served = (request.tenant, request.id) in self._served_requests
        is_continued = any((request.tenant, digest) in self._continued for digest in request.artifacts)
        return request.ended_at is not None and not is_served and not is_continued

    def drop(self, request: StoredRequest) -> int:
        """Count the request as removed; return what the artifacts take that nothing names any more."""
        self._dropped.add(request.id)
        owned = [(request.tenant, digest) for digest in request.artifacts]
        self._namers.subtract(owned)
        return sum(self.owned_bytes.get(one, 0) for one in owned if not self._namers[one])

    def unnamed_artifacts(self) -> set[Owned]:
        return {one for one in self.owned_bytes if self._namers[one] <= 0}

    def named_files(self) -> set[str]:
        """Return the digests of all files that a request or an artifact names which was not dropped."""
        kept = {digest for _, digest in self.owned_bytes.keys() - self.unnamed_artifacts()}
        files = select(_source.request_id.label("id"), _source.files.label("text"))
        outputs = select(_request.id, cast(_request.outputs, Text).label("text")).where(_request.outputs.is_not(None))
        manifests = select(_artifact.digest.label("id"), _artifact.manifest.label("text"))
        live = select(_text(_live.counterexamples))
        named: set[str] = set().union(*(find_digests(row.counterexamples) for row in self._rows(live)))
        for row in chain(self._rows(files), self._rows(outputs)):
            if row.id not in self._dropped:
                named |= find_digests(row.text)
        for row in self._rows(manifests):
            if row.id in kept:
                named |= find_digests(row.text)
        return named

    def _read_requests(self) -> None:
        columns = _request.id, _request.tenant, _request.state, _request.ended_at, _request.stored_bytes
        query = select(*columns, _request.continues, _text(_request.artifacts))
        for row in self._rows(query.order_by(_request.ended_at, _request.id)):
            is_final = State(row.state).is_final
            made = frozenset(find_digests(row.artifacts))
            ended_at = row.ended_at if is_final else None
            self.requests.append(StoredRequest(row.id, row.tenant, ended_at, int(row.stored_bytes), made))
            self._namers.update((row.tenant, digest) for digest in made)
            if row.continues is not None and not is_final:
                self._continued.add((row.tenant, row.continues))

    def _read_versions(self) -> None:
        texts = (_text(_version.artifacts), _text(_version.buckets))
        query = select(_version.tenant, _version.trace_request, _version.withdrawn, *texts)
        for row in self._rows(query):
            named_requests = {row.trace_request, *(row.withdrawn or {}).values()}
            self._served_requests |= {(row.tenant, request_id) for request_id in named_requests}
            served = find_digests(row.artifacts) | find_digests(row.buckets)
            self._namers.update((row.tenant, digest) for digest in served)

    def _rows(self, query: Select[*tuple[Any, ...]]) -> Iterator[AnyRow]:
        """Yield the rows without holding all of them, which may have megabytes each."""
        return iter(self._connection.execute(query, execution_options={"yield_per": _ROWS_AT_A_TIME}))


def _text(column: ColumnElement[Any]) -> ColumnElement[str]:
    return cast(column, Text).label(column.key)


def by_tenant(requests: Iterable[StoredRequest]) -> dict[str, list[StoredRequest]]:
    """Return the requests of each tenant, in the same order."""
    found: dict[str, list[StoredRequest]] = {}
    for one in requests:
        found.setdefault(one.tenant, []).append(one)
    return found
