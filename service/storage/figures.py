"""Figures: what the database knows of all tenants together, for whoever watches the service."""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import func, select

from service.domain.trace_request import State
from service.storage import tables
from service.storage.trace_request_rows import NOT_ENDED
from service.storage.transactions import Transactions
from tracehouse.spec.trace_spec import BudgetName

_request = tables.trace_requests.c


@dataclass(slots=True)
class PoolQueue:
    """The trace requests of a pool. Those that nobody asked for do not count as waiting: they give way."""

    waiting: int = 0
    oldest_s: float = 0.0  # how long the oldest of those has waited
    running: int = 0


@dataclass(frozen=True, slots=True)
class StoredFigures:
    """The queues by pool, and the bytes of all that counts against the tenants' quotas."""

    queues: dict[str, PoolQueue]
    stored_bytes: int


class Figures:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def durations(self, pool: str, newest: int = 50) -> dict[BudgetName, list[float]]:
        """Return how many seconds the attempts took with which requests of the pool ended lately, by their budgets.

        Those that were cancelled say nothing of how long they would have taken.
        """
        ended = (
            select(_request.budget, _request.started_at, _request.ended_at)
            .where(_request.pool == pool, _request.started_at.is_not(None), _request.ended_at.is_not(None))
            .order_by(_request.created_at.desc(), _request.id.desc())
            .limit(newest)
        )
        durations: dict[BudgetName, list[float]] = {}
        with self._transactions.read() as connection:
            for state in (State.SUCCEEDED, State.FAILED):
                for budget, started_at, ended_at in connection.execute(ended.where(_request.state == state.value)):
                    durations.setdefault(budget, []).append(max(0.0, (ended_at - started_at).total_seconds()))
        return durations

    def read(self) -> StoredFigures:
        """Read the figures, which takes longer the more is stored: some tenths of a second for a million requests."""
        not_ended = (
            select(_request.pool, _request.state, _request.is_idle, func.count(), func.min(_request.created_at))
            .where(NOT_ENDED)
            .group_by(_request.pool, _request.state, _request.is_idle)
        )
        counted = tables.trace_requests, tables.artifact_owners, tables.live_checks
        totals = [select(func.coalesce(func.sum(table.c.stored_bytes), 0)) for table in counted]
        with self._transactions.read() as connection:
            groups = connection.execute(not_ended).all()
            stored_bytes = sum(int(connection.execute(total).scalar_one()) for total in totals)
        queues: dict[str, PoolQueue] = {}
        for pool, state, is_idle, count, oldest in groups:
            queue = queues.setdefault(pool, PoolQueue())
            if state == State.RUNNING.value:
                queue.running += count
            elif not is_idle:
                queue.waiting = count
                queue.oldest_s = max(0.0, (datetime.now(UTC) - oldest).total_seconds())
        return StoredFigures(queues, stored_bytes)
