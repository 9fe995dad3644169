"""What the live check found of each model version. What is found later is added, whichever process found it."""

from collections.abc import Collection

from sqlalchemy import Connection, RowMapping, select

from service.domain.errors import ModelNotFound, VersionNotFound
from service.domain.live_check import LiveCheck
from service.domain.model import Moved
from service.storage import tables
from service.storage.models import lock_version, move_back
from service.storage.tables import document_bytes
from service.storage.transactions import Transactions, upsert

_live = tables.live_checks.c


class LiveChecks:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def find(self, tenant: str, names: Collection[str]) -> dict[tuple[str, int], LiveCheck]:
        """Return what was found of the versions of these models, by name and version; of others, nothing was."""
        query = select(tables.live_checks).where(_live.tenant == tenant, _live.name.in_(names))
        with self._transactions.read() as connection:
            rows = connection.execute(query).mappings().all()
        return {(row["name"], row["version"]): _as_live_check(row) for row in rows}

    def add(self, tenant: str, name: str, version: int, found: LiveCheck) -> list[Moved]:
        """Add what was found of a version, and return what is moved back for it.

        Nothing is kept of a version that was deleted meanwhile.
        """
        with self._transactions.write() as connection:
            try:
                lock_version(connection, tenant, name, version)
            except (ModelNotFound, VersionNotFound):
                return []
            checked = _read(connection, tenant, name, version).add(found)
            values = checked.model_dump(exclude={"counterexamples"})
            values["counterexamples"] = checked.counterexamples
            arrays_bytes = sum(one.arrays.byte_size for one in checked.counterexamples)
            values["stored_bytes"] = arrays_bytes + document_bytes(_live.counterexamples, checked.counterexamples)
            put = upsert(connection, tables.live_checks).values(tenant=tenant, name=name, version=version, **values)
            keys = tables.live_checks.primary_key.columns
            connection.execute(put.on_conflict_do_update(index_elements=keys, set_=values))
            return move_back(connection, tenant, name, version, checked.different)


def _read(connection: Connection, tenant: str, name: str, version: int) -> LiveCheck:
    there = _live.tenant == tenant, _live.name == name, _live.version == version
    row = connection.execute(select(tables.live_checks).where(*there)).mappings().one_or_none()
    return LiveCheck() if row is None else _as_live_check(row)


def _as_live_check(row: RowMapping) -> LiveCheck:
    return LiveCheck(**{column: row[column] for column in LiveCheck.model_fields})
