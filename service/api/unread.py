"""Unread: the bytes of replies that the service holds until their clients have read them."""

from collections import Counter

from service.domain.errors import TooMuchUnread
from tracehouse.frozen import Frozen


class UnreadLimits(Frozen):
    """How many bytes are held at most: in all, and for one tenant."""

    max_bytes: int
    tenant_max_bytes: int


class Unread:
    """Counts what is held. A tenant for which nothing is held may have one reply that is larger than its limit."""

    def __init__(self, limits: UnreadLimits) -> None:
        self._limits = limits
        self._held_bytes: Counter[str] = Counter()

    def take(self, tenant: str, byte_size: int) -> None:
        """Count the bytes, until they are given back. Raises TooMuchUnread, and counts nothing then."""
        for held, most, whose in (
            (self._held_bytes[tenant], self._limits.tenant_max_bytes, "of the tenant's replies"),
            (self._held_bytes.total(), self._limits.max_bytes, "of replies"),
        ):
            if held and held + byte_size > most:
                raise TooMuchUnread(
                    f"{held} bytes {whose} wait to be read, and with this one there would be more than {most}",
                    limit=most, unread_bytes=held, byte_size=byte_size,
                )  # fmt: skip
        self._held_bytes[tenant] += byte_size

    def give_back(self, tenant: str, byte_size: int) -> None:
        self._held_bytes[tenant] -= byte_size
        if not self._held_bytes[tenant]:
            del self._held_bytes[tenant]
