"""Work in processes of the service's own, in real processes."""

import asyncio
import os
import pickle
import signal
from functools import partial
from pathlib import Path

import pytest
from anyio import CancelScope, CapacityLimiter, create_task_group

import service.api.problems  # noqa: F401 - its errors are found too
from service.domain.errors import ProcessLost
from service.processes import in_process
from tests.conftest import wait_until
from tracehouse.errors import ServiceError, ShapeMismatch, by_slug


def refuse() -> None:
    raise ShapeMismatch("it has another shape", input="x", expected=[1, 2])


def die_once(mark: Path) -> int:
    """Kill this process unless that was done before."""
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def note(begun: Path, may_end: Path, ended: Path) -> None:
    begun.touch()
    wait_until(may_end.exists)
    ended.touch()


def test_work_is_done_elsewhere_and_gives_way() -> None:
    async def ask() -> tuple[int, int]:
        limiter = CapacityLimiter(1)
        return await in_process(os.getpid, limiter), await in_process(partial(os.nice, 0), limiter)

    worker, niceness = asyncio.run(ask())

    assert worker != os.getpid()
    assert niceness > os.nice(0)


def test_an_error_comes_back_whole() -> None:
    with pytest.raises(ShapeMismatch, match="another shape") as raised:
        asyncio.run(in_process(refuse, CapacityLimiter(1)))

    assert raised.value.facts == {"input": "x", "expected": [1, 2]}


@pytest.mark.parametrize("error", [*by_slug().values()], ids=[*by_slug()])
def test_every_error_of_the_service_can_come_back(error: type[ServiceError]) -> None:
    back = pickle.loads(pickle.dumps(error("what happened", limit=3)))

    assert (type(back), back.failure()) == (error, error("what happened", limit=3).failure())


def test_work_whose_process_is_killed_is_done_in_another_one(tmp_path: Path) -> None:
    assert asyncio.run(in_process(partial(die_once, tmp_path / "mark"), CapacityLimiter(1))) != os.getpid()


def test_work_that_kills_its_process_twice_fails() -> None:
    with pytest.raises(ProcessLost):
        asyncio.run(in_process(partial(os._exit, 1), CapacityLimiter(1)))


def test_work_that_has_begun_goes_on_when_its_caller_is_cancelled(tmp_path: Path) -> None:
    begun, may_end, ended = (tmp_path / name for name in ("begun", "may_end", "ended"))

    async def ask() -> None:
        with CancelScope() as scope:
            async with create_task_group() as tasks:
                tasks.start_soon(in_process, partial(note, begun, may_end, ended), CapacityLimiter(1))
                await asyncio.to_thread(wait_until, begun.exists)
                scope.cancel()
                may_end.touch()
        assert scope.cancelled_caught
        assert ended.exists()

    asyncio.run(ask())
