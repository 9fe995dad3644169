"""Allowances: the bytes that uploads and attempts take of a tenant's quota before a row counts them.

Whoever writes a file asks its allowance first, so that a tenant's stored bytes and those that are being written never
exceed the quota together.
"""

from contextlib import ExitStack
from threading import Lock
from typing import Self

from service.domain.quotas import Quotas
from service.storage.file_holds import FileHolds
from service.storage.quotas import Room, check_room
from service.storage.transactions import Transactions


class Allowances:
    """The open allowances of this process."""

    def __init__(self, transactions: Transactions, holds: FileHolds) -> None:
        self._transactions = transactions
        self.holds = holds
        self._lock = Lock()
        self._open: dict[str, list[Allowance]] = {}  # by tenants

    def open(self, tenant: str, quotas: Quotas) -> "Allowance":
        """Return a new allowance, which counts against the tenant's quota until it is closed."""
        allowance = Allowance(self, tenant, quotas)
        with self._lock:
            self._open.setdefault(tenant, []).append(allowance)
        return allowance

    def room(self, tenant: str, quotas: Quotas) -> Room:
        """Return the room for a row, beside what the tenant's allowances have taken."""
        return Room(quotas, self.taken_bytes(tenant))

    def taken_bytes(self, tenant: str, besides: "Allowance | None" = None) -> int:
        """Return what the tenant's allowances have taken, without that of `besides`."""
        with self._lock:
            return sum(one.byte_size for one in self._open.get(tenant, ()) if one is not besides)

    def take(self, allowance: "Allowance", byte_size: int) -> None:
        """Part of `Allowance.take`."""
        # Taken first and compared then, what is stored last: of two that take at once, or of one that takes while the
        # other's row is stored and its allowance closed, at least one counts the other.
        with self._lock:
            allowance.byte_size += byte_size
        try:
            staged_bytes = self.taken_bytes(allowance.tenant, besides=allowance)
            with self._transactions.read() as connection:
                check_room(connection, allowance.tenant, allowance.byte_size, allowance.quotas, staged_bytes)
        except BaseException:
            self.give_back(allowance, byte_size)
            raise

    def give_back(self, allowance: "Allowance", byte_size: int) -> None:
        """Part of `Allowance.give_back`."""
        with self._lock:
            allowance.byte_size -= byte_size

    def count_kept(self, allowance: "Allowance", byte_size: int) -> None:
        """Part of `Allowance.count_kept`."""
        with self._lock:
            allowance.kept_bytes += byte_size

    def close(self, allowance: "Allowance") -> None:
        """Part of `Allowance.close`."""
        with self._lock:
            allowances = self._open.get(allowance.tenant, [])
            if allowance in allowances:
                allowances.remove(allowance)
            if not allowances:
                self._open.pop(allowance.tenant, None)


class Allowance:
    """What one upload or attempt has taken. Close it, or leave it as a context manager, once its rows are stored.

    `kept_bytes` are those of the files that became new blobs.
    """

    def __init__(self, allowances: Allowances, tenant: str, quotas: Quotas) -> None:
        self._allowances = allowances
        self.tenant = tenant
        self.quotas = quotas
        self.byte_size = 0
        self.kept_bytes = 0
        self._hold = ExitStack()
        self._holds_files = False

    def hold_files(self) -> None:
        """Keep all files from being removed until this is closed: whoever makes blobs, until a row names them.

        Raises StorageUnavailable.
        """
        if not self._holds_files:
            self._hold.enter_context(self._allowances.holds.write())
            self._holds_files = True

    def take(self, byte_size: int) -> None:
        """Take so many bytes more. Raises StorageQuotaExceeded: then nothing is taken."""
        self._allowances.take(self, byte_size)

    def reach(self, byte_size: int) -> None:
        """Take what is lacking to so many bytes in all. Raises StorageQuotaExceeded."""
        if byte_size > self.byte_size:
            self.take(byte_size - self.byte_size)

    def give_back(self, byte_size: int) -> None:
        """Give so many bytes back, because a row counts them now, or because they are not there any more."""
        self._allowances.give_back(self, byte_size)

    def count_kept(self, byte_size: int) -> None:
        """Count a file that became a new blob."""
        self._allowances.count_kept(self, byte_size)

    def close(self) -> None:
        self._hold.close()
        self._allowances.close(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
