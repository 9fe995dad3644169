"""Figures: what the database knows of all tenants together, for whoever watches the service."""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Select, func, select

from service.domain.trace_request import State
from service.storage import tables
from service.storage.stored_bytes import read_stored_bytes
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

    def durations(self, pool: str, *, newest: int = 50, among: int = 2000) -> dict[BudgetName, list[float]]:
        """Return how many seconds the attempts took with which requests of the pool ended lately, by their budgets.

        Those that were cancelled say nothing of how long they would have taken. Only the newest requests of all pools
        are looked at, `among` of each state: for a pool that is seldom asked, all rows would be read.
        """
        durations: dict[BudgetName, list[float]] = {}
        with self._transactions.read() as connection:
            for state in (State.SUCCEEDED, State.FAILED):
                for budget, started_at, ended_at in connection.execute(_newest_ended(pool, state, newest, among)):
                    durations.setdefault(budget, []).append(max(0.0, (ended_at - started_at).total_seconds()))
        return durations

    def read(self) -> StoredFigures:
        """Read the figures, which takes longer the more is stored: some tenths of a second for a million requests."""
        not_ended = (
            select(_request.pool, _request.state, _request.is_idle, func.count(), func.min(_request.created_at))
            .where(NOT_ENDED)
            .group_by(_request.pool, _request.state, _request.is_idle)
        )
        with self._transactions.read() as connection:
            groups = connection.execute(not_ended).all()
            stored_bytes = read_stored_bytes(connection)
        queues: dict[str, PoolQueue] = {}
        for pool, state, is_idle, count, oldest in groups:
            queue = queues.setdefault(pool, PoolQueue())
            if state == State.RUNNING.value:
                queue.running += count
            elif not is_idle:
                queue.waiting = count
                queue.oldest_s = max(0.0, (datetime.now(UTC) - oldest).total_seconds())
        return StoredFigures(queues, stored_bytes)


def _newest_ended(pool: str, state: State, newest: int, among: int) -> Select[BudgetName, datetime, datetime]:
    """Return the query for the budgets of a pool's newest requests that ended so, and when they began and ended."""
    by_age = _request.created_at.desc(), _request.id.desc()
    columns = (_request.pool, _request.budget, _request.created_at, _request.id, _request.started_at, _request.ended_at)
    looked_at = select(*columns).where(_request.state == state.value).order_by(*by_age).limit(among)
    one = looked_at.subquery().c
    return (
        select(one.budget, one.started_at, one.ended_at)
        .where(one.pool == pool, one.started_at.is_not(None), one.ended_at.is_not(None))
        .order_by(one.created_at.desc(), one.id.desc())
        .limit(newest)
    )
