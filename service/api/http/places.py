"""Places: who may have a connection when there are too many, and who makes room for whom.

A place belongs to its client's address until a request on it shows a key, and then to the key's tenant. It *waits*
while it belongs to an address and nothing on it was admitted: whoever waits longest makes room for a newcomer. All
other places are *held*. Held places are limited, so that some are always left in which a newcomer can show a key, or
ask for the service's health. If no more can be held, a newcomer with a key gets a place on which a tenant has no
request, or else one that is held without a key.
"""

from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Literal, NamedTuple

from service.api.problems import ConnectionQuotaExceeded, TooManyConnections, TooManyFromAddress

# Chosen: without a key, four fifths of the places can be held, and with one, all but a twentieth.
_KEPT_FOR_KEYS = 1 / 5
_KEPT_FOR_HEALTH = 1 / 20
# Chosen: of an address's places too, some are left in which a key can be shown.
_KEPT_OF_ADDRESS = 1 / 4
# A customer of a provider has a network of this length, and can take any address in it.
_IPV6_PREFIX_BITS = 64
# A proxy may forward any text as an address. An IPv6 address has at most 45 characters.
_ADDRESS_MAX = 64


class Owner(NamedTuple):
    kind: Literal["address", "tenant"]
    name: str


class Place:
    """The place of one connection, from `Places.enter` until `leave`."""

    def __init__(self, places: "Places", address: Owner, make_room: Callable[[], None]) -> None:
        self._places = places
        self._address = address
        self._has_left = False
        self._shows_key = False
        self.make_room = make_room
        self.owner = address
        self.has_request = False
        self.is_admitted = False
        places.join(self)

    @property
    def is_held(self) -> bool:
        return self.is_admitted or self.owner.kind == "tenant"

    @property
    def may_make_room(self) -> bool:
        return not (self.has_request if self.owner.kind == "tenant" else self.is_admitted)

    def begin(self) -> None:
        """A request has arrived."""
        self.has_request = True
        self._move(self.owner)

    def admit(self, address: str) -> None:
        """Let this request be answered without a key. A proxy may have said that it comes from this address.

        Raises TooManyFromAddress, and TooManyConnections if those without a key may hold no more places.
        """
        if self._has_left or self.is_held:
            return
        owner = Owner("address", network_of(address))
        self._places.check_keyless(owner)
        self.is_admitted = True
        self._move(owner)

    def identify(self, tenant: str, tenant_max: int | None) -> None:
        """Give the place to the tenant whose key this request has shown.

        Raises ConnectionQuotaExceeded if the tenant has `tenant_max` others with requests, and TooManyConnections.
        """
        owner = Owner("tenant", tenant)
        if self._has_left:
            return
        if owner != self.owner:
            self._places.make_room_for(owner, tenant_max, is_held=self.is_held)
            self.is_admitted = False
            self._move(owner)
        self._shows_key = True

    def end(self) -> None:
        """The request was answered. Its tenant keeps the place for the next one; without a key, the place waits."""
        owner = self.owner if self._shows_key else self._address
        self.has_request = self.is_admitted = self._shows_key = False
        self._move(owner)
        self._places.limit_address(self._address)

    def leave(self) -> None:
        """The connection is closed, or about to be. A place may leave twice."""
        if not self._has_left:
            self._has_left = True
            self._places.part(self)

    def _move(self, owner: Owner) -> None:
        """Give it to this owner, or put it last among the owner's."""
        if self._has_left:
            return
        if owner == self.owner:
            self._places.renew(self)
            return
        self._places.part(self)
        self.owner = owner
        self._places.join(self)


class Places:
    """All places. Whatever happens to one takes the same time, however many there are."""

    def __init__(self, *, connections_max: int, address_max: int) -> None:
        self._connections_max = connections_max
        self._address_max = address_max
        self._admitted_max = address_max - _share(address_max, _KEPT_OF_ADDRESS)
        self._held_max = connections_max - _share(connections_max, _KEPT_FOR_HEALTH)
        self._held_keyless_max = connections_max - _share(connections_max, _KEPT_FOR_KEYS)
        self._owned: dict[Owner, _Owned] = {}
        self._count = 0
        # Dicts without values, as sets that keep the order in which places came.
        self._waiting: dict[Place, None] = {}
        self._resting: dict[Place, None] = {}  # places of tenants on which there is no request
        self._keyless: dict[Place, None] = {}  # admitted ones, on which no key has been shown so far

    def count(self) -> int:
        """How many places are taken."""
        return self._count

    def enter(self, address: str, make_room: Callable[[], None]) -> Place:
        """Give a new connection a place. `make_room` will be called if the connection has to be closed for another.

        It is not called for a newcomer of an address that only has admitted requests: what this one asks, decides.
        """
        owner = Owner("address", network_of(address))
        if self._count >= self._connections_max:
            self._evict_first(self._waiting)
        place = Place(self, owner, make_room)
        self.limit_address(owner)
        return place

    def join(self, place: Place) -> None:
        self._count += 1
        owned = self._owned.get(place.owner)
        if owned is None:
            owned = self._owned[place.owner] = _Owned()
        owned.all[place] = None
        self.renew(place)

    def renew(self, place: Place) -> None:
        """Put a place last among its owner's, for it may make room now or no longer."""
        idle = self._owned[place.owner].idle
        for places in (idle, self._waiting, self._resting, self._keyless):
            places.pop(place, None)
        if place.may_make_room:
            idle[place] = None
            (self._resting if place.is_held else self._waiting)[place] = None
        elif place.is_admitted:
            self._keyless[place] = None

    def part(self, place: Place) -> None:
        self._count -= 1
        owned = self._owned[place.owner]
        for places in (owned.all, owned.idle, self._waiting, self._resting, self._keyless):
            places.pop(place, None)
        if not owned.all:
            del self._owned[place.owner]

    def check_keyless(self, address: Owner) -> None:
        """Raises TooManyFromAddress, and TooManyConnections."""
        owned = self._owned.get(address, _Owned())
        if len(owned.all) - len(owned.idle) >= self._admitted_max:
            raise TooManyFromAddress("too many requests from one address are being answered", limit=self._admitted_max)
        if self._held >= self._held_keyless_max:
            raise self._too_many()

    def make_room_for(self, tenant: Owner, tenant_max: int | None, *, is_held: bool) -> None:
        """Make room for one more place of the tenant. Raises ConnectionQuotaExceeded, and TooManyConnections.

        A request without a key makes room too: of many, whose replies nobody reads, each holds its place for long.
        """
        owned = self._owned.get(tenant, _Owned())
        if tenant_max is not None and len(owned.all) >= tenant_max and not self._evict_first(owned.idle):
            raise ConnectionQuotaExceeded("the tenant has too many connections open", limit=tenant_max)
        if is_held or self._held < self._held_max:
            return
        if not self._evict_first(self._resting) and not self._evict_first(self._keyless):
            raise self._too_many()

    def has_room(self, tenant: str, tenant_max: int | None) -> bool:
        """Whether the tenant could have one more place, and nobody would have to leave for it."""
        owned = self._owned.get(Owner("tenant", tenant), _Owned())
        is_within_share = tenant_max is None or len(owned.all) < tenant_max
        return is_within_share and self._held < self._held_max and self._count < self._connections_max

    def limit_address(self, address: Owner) -> None:
        """If the address has too many places, close the first of them that may make room, unless that is the only."""
        owned = self._owned.get(address, _Owned())
        if len(owned.all) > self._address_max and len(owned.idle) > 1:
            self._evict_first(owned.idle)

    @property
    def _held(self) -> int:
        return self._count - len(self._waiting)

    def _evict_first(self, places: dict[Place, None]) -> bool:
        """Close the connection that is idle for the longest time; whether there was one."""
        place = next(iter(places), None)
        if place is None:
            return False
        place.leave()
        place.make_room()
        return True

    def _too_many(self) -> TooManyConnections:
        return TooManyConnections("too many connections are open", limit=self._connections_max)


class _Owned:
    """The places of one address or tenant, and those of them that may make room, in the order of time."""

    def __init__(self) -> None:
        self.all: dict[Place, None] = {}
        self.idle: dict[Place, None] = {}


def _share(count: int, share: float) -> int:
    return max(1, int(count * share))


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """Return what counts as one address: an IPv4 address, or the network of an IPv6 address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:_ADDRESS_MAX]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Address(int(parsed) >> _IPV6_PREFIX_BITS << _IPV6_PREFIX_BITS))
