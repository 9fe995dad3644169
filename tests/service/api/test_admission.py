"""Requests when there are too many connections: health and whoever has a key are answered, and others are told why."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import httpx
import pytest

from service.api.app import create_app
from service.api.context import AppContext
from service.api.http.access import MayRead
from service.api.http.places import Places
from tests.conftest import PATIENCE_S, wait_until
from tests.service.api.conftest import assert_problem, authorized, protocol, serving

# From which address a request is, says the proxy, which is on this machine.
CROWDED, OTHER = {"x-forwarded-for": "192.0.2.1"}, {"x-forwarded-for": "192.0.2.2"}
# Three quarters of an address's places, and four fifths of all.
OF_ADDRESS, OF_ALL = 3, 16


class Service:
    """One with keys, and with pages, one for anybody and one for a key, that answer when it is `released`."""

    def __init__(self, context: AppContext, address_max: int) -> None:
        self.released = threading.Event()
        self.waiting = 0
        self.app = create_app(context)
        self.app.add_api_route("/waits", self._wait)
        self.app.add_api_route("/waits/with-key", self._wait_with_key)
        self.protocol = protocol(places=Places(connections_max=20, address_max=address_max))
        self.base_url = ""

    async def _wait(self) -> None:
        self.waiting += 1
        while not self.released.is_set():  # noqa: ASYNC110 (another thread sets it)
            await asyncio.sleep(0.01)

    async def _wait_with_key(self, _: MayRead) -> None:
        await self._wait()

    def ask(self, path: str, *headers: dict[str, str]) -> httpx.Response:
        """Ask on a connection of its own."""
        both = {name: value for each in headers for name, value in each.items()}
        return httpx.get(self.base_url + path, headers=both, timeout=PATIENCE_S, verify=False)


@pytest.fixture
def start(context: AppContext) -> Iterator[Callable[..., Service]]:
    """Start a service on which so many requests wait."""
    with ThreadPoolExecutor(OF_ALL) as clients, ExitStack() as stack:

        def start(*, address_max: int, busy: int, keys_required: bool = True, tenant_max: int = 50) -> Service:
            limits = replace(context.limits, tenant_connections_max=tenant_max)
            service = Service(replace(context, keys_required=keys_required, limits=limits), address_max)
            address = stack.enter_context(serving(service.app, http=service.protocol))
            stack.callback(service.released.set)
            service.base_url = "http://{}:{}".format(*address)
            for _ in range(busy):
                clients.submit(service.ask, "/waits", CROWDED)
            wait_until(lambda: service.waiting == busy)
            return service

        yield start


@pytest.fixture
def with_key(context: AppContext) -> dict[str, str]:
    return authorized(context.store)


def test_requests_from_a_crowded_address_are_told_to_come_again(start: Callable[..., Service]) -> None:
    service = start(address_max=4, busy=OF_ADDRESS)
    refused = service.ask("/problems", CROWDED)

    assert assert_problem(refused, 429, "too-many-from-address")["limit"] == OF_ADDRESS
    assert refused.headers["retry-after"] == "1"
    assert service.ask("/problems", OTHER).status_code == 200


def test_when_those_without_a_key_hold_their_share_others_are_told_to_come_again(
    start: Callable[..., Service],
) -> None:
    service = start(address_max=100, busy=OF_ALL)
    refused = service.ask("/problems", OTHER)

    assert_problem(refused, 503, "too-many-connections")
    assert refused.headers["retry-after"] == "1"


@pytest.mark.parametrize("limits", [{"address_max": 4, "busy": OF_ADDRESS}, {"address_max": 100, "busy": OF_ALL}])
@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_health_is_answered_all_the_same(start: Callable[..., Service], limits: dict[str, int], path: str) -> None:
    assert start(**limits).ask(path, CROWDED).status_code == 200


@pytest.mark.parametrize("limits", [{"address_max": 4, "busy": OF_ADDRESS}, {"address_max": 100, "busy": OF_ALL}])
def test_who_has_a_key_is_answered_all_the_same(
    start: Callable[..., Service], limits: dict[str, int], with_key: dict[str, str]
) -> None:
    service = start(**limits)

    assert service.ask("/trace", CROWDED, with_key).status_code == 200
    assert service.ask("/problems", CROWDED, with_key).status_code == 200


@pytest.mark.parametrize("credentials", ["Bearer th_no", "Bearer th_12345678_" + "a" * 43, "Basic YTpi", "Bearer", ""])
def test_only_a_key_of_this_service_is_one(start: Callable[..., Service], credentials: str) -> None:
    service = start(address_max=4, busy=OF_ADDRESS)

    assert_problem(service.ask("/trace", CROWDED, {"authorization": credentials}), 429, "too-many-from-address")


def test_while_keys_are_off_whoever_may_ask_counts_as_somebody_with_a_key(start: Callable[..., Service]) -> None:
    service = start(address_max=4, busy=OF_ADDRESS, keys_required=False)

    assert service.ask("/trace", CROWDED).status_code == 200


def test_a_tenants_idle_connection_makes_room_for_its_next(
    start: Callable[..., Service], with_key: dict[str, str]
) -> None:
    service = start(address_max=100, busy=0, tenant_max=1)
    request = httpx.Request("GET", f"{service.base_url}/trace", headers=with_key)
    with httpx.Client(timeout=PATIENCE_S) as first, httpx.Client(timeout=PATIENCE_S) as second:
        assert first.send(request).status_code == 200
        assert second.send(request).status_code == 200
        assert first.send(request).status_code == 200, "it could not connect again"


def test_a_tenant_whose_connections_are_all_busy_is_told_so(
    start: Callable[..., Service], with_key: dict[str, str], context: AppContext
) -> None:
    service = start(address_max=100, busy=0, tenant_max=1)
    with ThreadPoolExecutor(1) as client:
        client.submit(service.ask, "/waits/with-key", with_key)
        wait_until(lambda: service.waiting == 1)
        refused = service.ask("/trace", with_key)
        other = service.ask("/trace", authorized(context.store, tenant="other"))
        service.released.set()

    assert assert_problem(refused, 429, "connection-quota-exceeded")["limit"] == 1
    assert refused.headers["retry-after"] == "1"
    assert other.status_code == 200
