"""Held bytes: what requests hold in memory while their bodies arrive, or until their replies have been read."""

from collections import Counter

from service.domain.errors import TooMuchArrives, TooMuchUnread
from tracehouse.frozen import Frozen

# Less is not counted: the service holds as much for each connection anyway, and their number is limited.
SMALL_BYTES = 64 * 1024


class HeldLimits(Frozen):
    """How many bytes are held at most: in all, and for one tenant."""

    max_bytes: int
    tenant_max_bytes: int


class HeldBytes:
    """Counts what is held. Beyond a limit, `refusal` is raised; but a request that is alone may hold any number."""

    def __init__(self, limits: HeldLimits, refusal: type[TooMuchArrives | TooMuchUnread]) -> None:
        self._limits = limits
        self._refusal = refusal
        self._of_tenant: Counter[str] = Counter()
        self.total_bytes = 0

    @property
    def max_bytes(self) -> int:
        return self._limits.max_bytes

    def check(self, tenant: str, more: int, own: int = 0) -> None:
        """Raise the refusal if a request, which holds `own` bytes, may not hold `more` beside them."""
        for held, most, whose in (
            (self._of_tenant[tenant], self._limits.tenant_max_bytes, "the tenant's requests hold"),
            (self.total_bytes, self._limits.max_bytes, "requests hold"),
        ):
            if held > own and held + more > most:
                raise self._refusal(
                    f"{whose} {held} bytes, and with {more} more there would be more than {most}",
                    limit=most, held_bytes=held, byte_size=own + more,
                )  # fmt: skip

    def add(self, tenant: str, byte_size: int) -> None:
        self._of_tenant[tenant] += byte_size
        self.total_bytes += byte_size
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]


class Holding:
    """What one request holds, until `close`."""

    def __init__(self, counted: HeldBytes) -> None:
        self._counted = counted
        self._tenant = ""
        self.byte_size = 0

    def expect(self, tenant: str, byte_size: int) -> None:
        """Raise the refusal if the request could not hold so many bytes now."""
        if byte_size > max(self.byte_size, SMALL_BYTES):
            self._counted.check(tenant, byte_size - self.byte_size, self.byte_size)

    def reach(self, tenant: str, byte_size: int) -> None:
        """Hold so many bytes in all, if there were less before. Raises the refusal, and holds no more then."""
        if byte_size > max(self.byte_size, SMALL_BYTES):
            self.expect(tenant, byte_size)
            self._counted.add(tenant, byte_size - self.byte_size)
            self._tenant, self.byte_size = tenant, byte_size

    def close(self) -> None:
        self._counted.add(self._tenant, -self.byte_size)
        self.byte_size = 0
