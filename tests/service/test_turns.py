"""Whose work is done on a thread, and what becomes of work that nobody waits for any more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event

import pytest
from anyio import CancelScope

from service.domain.errors import TooMuchWorkWaits
from service.turns import TurnLimits, Turns
from tests.conftest import PATIENCE_S, wait_until


def turns(
    running_max: int = 1, tenant_running_max: int = 1, waiting_max: int = 100, tenant_waiting_max: int = 100
) -> Turns:
    return Turns(
        TurnLimits(
            running_max=running_max,
            tenant_running_max=tenant_running_max,
            waiting_max=waiting_max,
            tenant_waiting_max=tenant_waiting_max,
        )
    )


class Desk:
    """Work that is noted when it begins. Work named `stays` goes on until it may end."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._may_end = Event()
        self.begun: list[str] = []

    async def ask(self, tenant: str, name: str = "") -> "asyncio.Task[None]":
        """Ask for a piece of work, and return when it waits or runs."""
        task = asyncio.create_task(self._turns.run(tenant, self._work, name or tenant))
        await asyncio.sleep(0)
        return task

    async def until_begun(self, name: str) -> None:
        await asyncio.to_thread(wait_until, lambda: name in self.begun)

    def end(self) -> None:
        self._may_end.set()

    def _work(self, name: str) -> None:
        self.begun.append(name)
        if name.startswith("stays"):
            assert self._may_end.wait(PATIENCE_S)


@asynccontextmanager
async def busy(turns: Turns, tenant: str = "aa") -> AsyncIterator[Desk]:
    """A desk at which a piece of this tenant's work runs, until the block ends."""
    desk = Desk(turns)
    running = await desk.ask(tenant, "stays")
    await desk.until_begun("stays")
    try:
        yield desk
    finally:
        desk.end()
    await running


def test_a_turn_is_wanted_if_what_waits_could_begin_without_it() -> None:
    async def work() -> list[tuple[bool, bool]]:
        given = turns(running_max=2, tenant_running_max=1)
        desk, asked, found = Desk(given), [], []
        async with given.turn("aa"), given.turn("bb"):
            for tenant in ("nobody", "aa", "cc"):
                if tenant != "nobody":
                    asked.append(await desk.ask(tenant))
                found.append((given.is_wanted("aa"), given.is_wanted("bb")))
        await asyncio.gather(*asked)
        return found

    assert asyncio.run(work()) == [(False, False), (True, False), (True, True)]


def test_tenants_take_turns() -> None:
    async def work() -> list[str]:
        async with busy(turns()) as desk:
            asked = [await desk.ask(tenant, f"{tenant}{number}") for tenant in ("aa", "bb", "cc") for number in (1, 2)]
        await asyncio.gather(*asked)
        return desk.begun

    assert asyncio.run(work()) == ["stays", "bb1", "cc1", "aa1", "bb2", "cc2", "aa2"]


def test_one_tenant_leaves_threads_to_the_others() -> None:
    async def work() -> list[str]:
        async with busy(turns(running_max=2)) as desk:
            waiting = await desk.ask("aa", "aa")
            await (await desk.ask("bb", "bb"))
            begun = [*desk.begun]
        await waiting
        return begun

    assert asyncio.run(work()) == ["stays", "bb"]


@pytest.mark.parametrize("limit", ["waiting_max", "tenant_waiting_max"])
def test_what_waits_is_bounded(limit: str) -> None:
    async def work() -> TooMuchWorkWaits:
        of_turns = turns(**{limit: 1})
        async with busy(of_turns) as desk:
            waiting = await desk.ask("aa")
            with pytest.raises(TooMuchWorkWaits) as raised:
                await of_turns.run("aa", int)
            begun_later = asyncio.create_task(of_turns.go_on("aa", int))
            await asyncio.sleep(0)
        await waiting
        assert await begun_later == 0, "what has begun is not refused"
        assert await of_turns.run("aa", int) == 0, "there is room again"
        return raised.value

    assert asyncio.run(work()).facts["limit"] == 1


def test_a_tenant_that_fills_its_own_room_leaves_that_of_the_others() -> None:
    async def work() -> int:
        of_turns = turns(running_max=2, tenant_waiting_max=1)
        async with busy(of_turns) as desk:
            waiting = await desk.ask("aa")
            answer = await of_turns.run("bb", int)
        await waiting
        return answer

    assert asyncio.run(work()) == 0


def test_work_that_waits_is_dropped_with_whoever_asked_for_it() -> None:
    async def work() -> list[str]:
        async with busy(turns(waiting_max=1)) as desk:
            dropped = await desk.ask("aa", "dropped")
            dropped.cancel()
            await asyncio.wait([dropped])
            kept = await desk.ask("aa", "kept")
        await kept
        return desk.begun

    assert asyncio.run(work()) == ["stays", "kept"]


def test_work_that_is_dropped_when_its_turn_has_just_come_gives_the_turn_back() -> None:
    async def work() -> int:
        of_turns = turns()
        task = asyncio.create_task(of_turns.run("aa", int))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        async with asyncio.timeout(PATIENCE_S):
            return await of_turns.run("bb", int)

    assert asyncio.run(work()) == 0


def test_work_that_runs_holds_its_turn_to_its_end() -> None:
    async def work() -> list[str]:
        of_turns = turns()
        desk = Desk(of_turns)

        async def ask_and_leave() -> None:
            with CancelScope() as scope:
                scopes.append(scope)
                await of_turns.run("aa", desk._work, "stays")

        scopes: list[CancelScope] = []
        leaving = asyncio.create_task(ask_and_leave())
        await desk.until_begun("stays")
        scopes[0].cancel()
        waiting = await desk.ask("bb", "bb")
        begun = [*desk.begun]
        desk.end()
        await asyncio.gather(leaving, waiting)
        return begun

    assert asyncio.run(work()) == ["stays"]


def test_each_item_of_a_stream_takes_a_turn() -> None:
    async def work() -> list[str]:
        of_turns = turns()
        said: list[str] = []

        async def read(tenant: str) -> None:
            items = (said.append(f"{tenant}{number}") for number in (1, 2))
            assert [item async for item in of_turns.iterate(tenant, items)] == [None, None]

        await asyncio.gather(read("aa"), read("bb"))
        return said

    assert asyncio.run(work()) == ["aa1", "bb1", "aa2", "bb2"]
