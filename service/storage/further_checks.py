"""Further checks: which requests made an artifact or go on with its check, and what an idle worker may take."""

from sqlalchemy import Connection, exists, literal, select, update

import migrations
from service.domain.further_check import LaterCheck
from service.domain.trace_request import TraceRequest
from service.storage import tables
from service.storage.artifacts import lock_artifacts, no_artifact
from service.storage.models import version_has_artifact
from service.storage.trace_request_rows import LIST_COLUMNS, find_request, has_artifact, request_of, status_of
from service.storage.transactions import Transactions

_request = tables.trace_requests.c
_owner = tables.artifact_owners.c
_version = tables.model_versions.c


class FurtherChecks:
    """What goes on with the checks of artifacts."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def maker(self, tenant: str, digest: str) -> TraceRequest:
        """Return the newest request that has the artifact among its own. Raises ArtifactNotFound, if it was deleted."""
        query = (
            select(_request.id)
            .where(_request.tenant == tenant, has_artifact(literal(digest)))
            .order_by(_request.created_at.desc(), _request.id.desc())
            .limit(1)
        )
        with self._transactions.read() as connection:
            request_id = connection.scalar(query)
            if request_id is None:
                raise no_artifact(digest)
            row = find_request(connection, request_id)
        return request_of(row)

    def later(self, tenant: str, digest: str) -> list[LaterCheck]:
        """Return the requests that go on, or went on, with the artifact's check, the first one first."""
        query = select(*LIST_COLUMNS).where(_request.tenant == tenant, _request.continues == digest)
        with self._transactions.read() as connection:
            rows = connection.execute(query.order_by(_request.created_at, _request.id)).all()
        return [
            LaterCheck(
                trace_request=one.id,
                state=one.state,
                verdict=one.verdict,
                digest=next((made.digest for made in one.artifacts if made.continues == digest), None),
                created_at=one.created_at,
            )
            for one in map(status_of, rows)
        ]

    def next_idle(self, pool: str) -> tuple[str, str] | None:
        """Return tenant and digest of an artifact with whose check an idle worker of the pool may go on; None if none.

        It belongs to a version that is there, and no newer release made it. The oldest artifact comes first.
        """
        is_served = _version.tenant == _owner.tenant, version_has_artifact(_owner.digest)
        query = (
            select(_owner.tenant, _owner.digest)
            .join(tables.artifacts, tables.artifacts.c.digest == _owner.digest)
            .where(_owner.idle_pool == pool, exists().where(*is_served))
            .where(tables.artifacts.c.revision <= migrations.HEAD)
            .order_by(tables.artifacts.c.created_at, _owner.digest)
            .limit(1)
        )
        with self._transactions.read() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else (row.tenant, row.digest)

    def leave_out(self, tenant: str, digest: str) -> None:
        """Let no idle worker go on with the artifact's check."""
        with self._transactions.write() as connection:
            mark_gone_on(connection, tenant, digest)


def go_on_from(connection: Connection, tenant: str, digest: str) -> None:
    """Note within a transaction that a request goes on with the artifact's check, which keeps it from being removed."""
    lock_artifacts(connection, tenant)
    mark_gone_on(connection, tenant, digest)


def mark_gone_on(connection: Connection, tenant: str, digest: str) -> None:
    """Note within a transaction that somebody goes on with the artifact's check, or that nobody can."""
    owned = _owner.tenant == tenant, _owner.digest == digest
    connection.execute(update(tables.artifact_owners).where(*owned).values(idle_pool=None))
