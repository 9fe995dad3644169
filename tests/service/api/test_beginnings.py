"""Which of the requests that came at once begins in which turn of the event loop."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from service.api.app import create_app
from service.api.context import AppContext
from service.api.http.bearer import tenant_lately
from service.api.http.beginnings import Beginnings
from service.api.http.places import Owner
from service.domain.api_key import Scope
from service.storage.database import Store
from tests.service.api.conftest import authorized, local

pytestmark = pytest.mark.anyio

ACME, OTHER = Owner("tenant", "acme"), Owner("tenant", "other")
HERE, THERE = Owner("address", "10.0.0.1"), Owner("address", "10.0.0.2")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # on which the service runs


async def turns_of(beginnings: Beginnings, begun: list[str]) -> list[set[str]]:
    """What begins in each further turn of the loop, until nothing waits."""
    turns = []
    while beginnings.waiting:
        before = len(begun)
        await asyncio.sleep(0)
        turns.append(set(begun[before:]))
    return turns


def take(beginnings: Beginnings, begun: list[str], owner: Owner, *names: str) -> None:
    for name in names:
        beginnings.take(owner, name, partial(begun.append, name), asyncio.get_running_loop())


async def test_a_request_begins_at_once_where_nothing_waits() -> None:
    beginnings, begun = Beginnings(), list[str]()
    take(beginnings, begun, HERE, "first")
    assert begun == ["first"]

    await asyncio.sleep(0)
    take(beginnings, begun, HERE, "second")
    assert begun == ["first", "second"]


async def test_who_sends_many_keeps_no_other_tenant_and_no_other_address_waiting() -> None:
    beginnings, begun = Beginnings(), list[str]()
    take(beginnings, begun, HERE, *(f"here {number}" for number in range(100)))
    take(beginnings, begun, ACME, *(f"acme {number}" for number in range(100)))
    take(beginnings, begun, THERE, "there")
    take(beginnings, begun, OTHER, "other")
    assert begun == ["here 0", "acme 0"]

    turns = await turns_of(beginnings, begun)

    assert turns[:3] == [{"here 1", "acme 1"}, {"there", "other"}, {"here 2", "acme 2"}]
    assert len(turns) == 100
    assert len(begun) == 202


async def test_what_comes_later_does_not_come_before_what_waits() -> None:
    beginnings, begun = Beginnings(), list[str]()
    take(beginnings, begun, HERE, "1", "2", "3")
    await asyncio.sleep(0)
    take(beginnings, begun, HERE, "4")

    await turns_of(beginnings, begun)

    assert begun == ["1", "2", "3", "4"]


async def test_what_a_client_that_has_gone_asked_for_never_begins() -> None:
    beginnings, begun = Beginnings(), list[str]()
    take(beginnings, begun, HERE, "1", "gone", "2")
    take(beginnings, begun, THERE, "gone too")
    beginnings.give_up(HERE, "gone")
    beginnings.give_up(THERE, "gone too")
    beginnings.give_up(HERE, "1")  # has begun

    assert await turns_of(beginnings, begun) == [{"2"}]
    assert beginnings.waiting == 0


def test_a_request_is_of_the_tenant_whose_key_it_shows(context: AppContext, store: Store) -> None:
    """Also while somebody writes, and after it: whose turn it is needs no newer answer."""
    context = replace(context, keys_required=True)
    shown = authorized(store, Scope.READ)
    headers = [(b"authorization", shown["authorization"].encode())]
    assert tenant_lately(context, headers) is None

    with local(create_app(context)) as client:
        assert client.get("/trace", headers=shown).status_code == 200
    store.api_keys.create("another", "other", [Scope.READ])

    assert tenant_lately(context, headers) == "acme"
    assert tenant_lately(context, [(b"authorization", b"Bearer th_aaaaaaaa_" + b"a" * 43)]) is None
    assert tenant_lately(context, headers * 2) is None
    assert tenant_lately(context, [(b"host", b"localhost")]) is None
    assert tenant_lately(replace(context, keys_required=False), []) == "default"
