"""Which connections may stay when there are too many, and which are closed for others."""

import pytest

from service.api.http.places import Place, Places, network_of
from service.api.problems import ConnectionQuotaExceeded, TooManyConnections, TooManyFromAddress


class Connections:
    """Connections with names, and in `closed` those that had to make room, in that order."""

    def __init__(self, connections_max: int = 100, address_max: int = 100) -> None:
        self.places = Places(connections_max=connections_max, address_max=address_max)
        self.closed: list[str] = []

    def enter(self, name: str, address: str | None = None) -> Place:
        return self.places.enter(address or f"address of {name}", lambda: self.closed.append(name))

    def admitted(self, name: str, address: str | None = None) -> Place:
        place = self.enter(name, address)
        place.begin()
        place.admit(address or f"address of {name}")
        return place

    def of_tenant(self, name: str, tenant: str, tenant_max: int | None = None) -> Place:
        place = self.admitted(name)
        place.identify(tenant, tenant_max)
        return place

    def of_tenant_at_once(self, name: str, tenant: str) -> Place:
        """Of one whose request was not admitted without a key."""
        place = self.enter(name)
        place.begin()
        place.identify(tenant, None)
        return place


@pytest.fixture
def connections() -> Connections:
    """Of 20 places, those without a key can hold 16, and all together 19."""
    return Connections(connections_max=20)


def test_nobody_is_closed_while_there_is_room(connections: Connections) -> None:
    for number in range(20):
        connections.enter(str(number))

    assert connections.closed == []


def test_a_newcomer_gets_the_place_that_has_waited_longest(connections: Connections) -> None:
    for number in range(22):
        connections.enter(str(number))

    assert connections.closed == ["0", "1"]


def test_a_place_waits_from_the_end_of_its_last_request(connections: Connections) -> None:
    first = connections.admitted("first")
    for number in range(19):
        connections.enter(str(number))
    first.end()
    connections.enter("newcomer")

    assert connections.closed == ["0"]


def test_a_connection_that_was_closed_leaves_room(connections: Connections) -> None:
    places = [connections.enter(str(number)) for number in range(20)]
    places[3].leave()
    places[3].leave()
    connections.enter("newcomer")
    assert connections.closed == []

    connections.enter("another")
    assert connections.closed == ["0"]


def test_what_waits_is_closed_and_not_what_has_a_key(connections: Connections) -> None:
    for number in range(10):
        connections.of_tenant(f"busy {number}", "ours")
    for number in range(5):
        connections.of_tenant(f"rests {number}", "ours").end()
    for number in range(100):
        connections.enter(str(number))

    assert connections.closed == [str(number) for number in range(95)]


def test_who_has_no_key_leaves_places_for_those_with_one(connections: Connections) -> None:
    for number in range(16):
        connections.admitted(str(number))
    with pytest.raises(TooManyConnections):
        connections.admitted("without")

    without = connections.enter("with")
    without.begin()
    without.identify("ours", None)
    assert connections.closed == []


def test_all_who_hold_a_place_leave_one_for_health(connections: Connections) -> None:
    for number in range(19):
        connections.of_tenant_at_once(str(number), "ours")
    connections.enter("idle")
    connections.enter("health").begin()

    assert connections.closed == ["idle"]


def test_what_rests_makes_room_for_a_key(connections: Connections) -> None:
    for number in range(19):
        place = connections.of_tenant_at_once(str(number), "ours")
        if number in (3, 5):
            place.end()
    connections.enter("newcomer").identify("theirs", None)

    assert connections.closed == ["3"]


def test_a_request_without_a_key_makes_room_for_one_with_a_key(connections: Connections) -> None:
    for number in range(16):
        connections.admitted(f"without {number}")
    for number in range(3):
        connections.of_tenant_at_once(f"attacker's {number}", "attacker")
    assert connections.closed == []

    connections.of_tenant_at_once("honest", "honest")
    assert connections.closed == ["without 0"]


def test_if_all_places_with_keys_have_requests_no_more_are_taken(connections: Connections) -> None:
    for number in range(19):
        connections.of_tenant_at_once(str(number), "ours")

    with pytest.raises(TooManyConnections):
        connections.enter("newcomer").identify("theirs", None)


def test_a_tenant_with_too_many_closes_its_own(connections: Connections) -> None:
    connections.of_tenant("other", "theirs").end()
    first, second = connections.of_tenant("first", "ours", 2), connections.of_tenant("second", "ours", 2)
    second.end()
    connections.of_tenant("third", "ours", 2)
    assert connections.closed == ["second"]

    with pytest.raises(ConnectionQuotaExceeded):
        connections.of_tenant("fourth", "ours", 2)
    first.leave()
    connections.of_tenant("fifth", "ours", 2)
    assert connections.closed == ["second"]


def test_a_tenant_keeps_its_place_from_one_request_to_the_next(connections: Connections) -> None:
    place = connections.of_tenant("one", "ours", 1)
    for _ in range(3):
        place.end()
        place.begin()
        place.identify("ours", 1)

    with pytest.raises(ConnectionQuotaExceeded):
        connections.of_tenant("two", "ours", 1)


def test_a_request_without_a_key_gives_the_place_back_to_the_address(connections: Connections) -> None:
    place = connections.of_tenant("one", "ours", 1)
    place.end()
    place.begin()
    place.end()

    connections.of_tenant("two", "ours", 1)
    for number in range(19):
        connections.enter(str(number))
    assert connections.closed == ["one"]


def test_an_address_with_too_many_closes_its_own() -> None:
    connections = Connections(address_max=4)
    connections.enter("other")
    for number in range(6):
        connections.enter(str(number), "10.0.0.1")

    assert connections.closed == ["0", "1"]


def test_requests_from_one_address_leave_it_places_to_show_a_key_in() -> None:
    connections = Connections(address_max=4)
    admitted = [connections.admitted(str(number), "10.0.0.1") for number in range(3)]
    with pytest.raises(TooManyFromAddress):
        connections.admitted("fourth", "10.0.0.1")

    connections.enter("with a key", "10.0.0.1").identify("ours", None)
    admitted[0].end()
    connections.admitted("fifth", "10.0.0.1")
    assert connections.closed == ["fourth"]


def test_a_newcomer_of_an_address_that_is_full_is_heard() -> None:
    connections = Connections(address_max=1)
    connections.enter("first", "10.0.0.1")
    connections.enter("second", "10.0.0.1").identify("ours", None)
    connections.enter("third", "10.0.0.1")

    assert connections.closed == ["first"]


def test_a_proxys_clients_are_counted_one_by_one() -> None:
    connections = Connections(address_max=2)
    for number in range(3):
        place = connections.enter(str(number), "10.0.0.1")
        place.begin()
        place.admit(f"192.0.2.{number}")
    assert connections.closed == []

    place = connections.enter("again", "10.0.0.1")
    place.begin()
    with pytest.raises(TooManyFromAddress):
        place.admit("192.0.2.0")


def test_a_proxys_connection_is_its_own_again_after_the_request() -> None:
    connections = Connections(address_max=2)
    for number in range(3):
        place = connections.enter(str(number), "10.0.0.1")
        place.begin()
        place.admit(f"192.0.2.{number}")
        place.end()

    assert connections.closed == ["0"]


@pytest.mark.parametrize("address", ["address", "tenant"])
def test_nothing_is_kept_of_who_has_gone(address: str) -> None:
    connections = Connections()
    place = connections.enter("one")
    if address == "tenant":
        place.identify("ours", None)
    place.leave()

    assert connections.places._owned == {}


def test_what_happens_after_a_connection_was_closed_changes_nothing(connections: Connections) -> None:
    place = connections.enter("one")
    place.leave()
    place.begin()
    place.admit("10.0.0.1")
    place.identify("ours", 1)
    place.end()

    assert connections.places._owned == {}


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::1", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
        ("x" * 1000, "x" * 64),
    ],
)
def test_one_network_of_ipv6_counts_as_one_address(address: str, network: str) -> None:
    assert network_of(address) == network
