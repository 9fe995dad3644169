"""Work in processes of the service's own, in real processes."""

import asyncio
import os
import pickle
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from anyio import CancelScope, CapacityLimiter, create_task_group

import service.api.problems  # noqa: F401 - its errors are found too
from service.domain.errors import ProcessLost
from service.processes import in_background, in_process
from tests.conftest import wait_until
from tracehouse.byte_units import MIB
from tracehouse.errors import ServiceError, ShapeMismatch, by_slug

R = TypeVar("R")


def refuse() -> None:
    raise ShapeMismatch("it has another shape", input="x", expected=[1, 2])


def die_once(mark: Path) -> int:
    """Kill this process unless that was done before."""
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def turned_around(value: list[bytes]) -> list[bytes]:
    return value[::-1]


def pid_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def note(begun: Path, may_end: Path, ended: Path) -> None:
    begun.touch()
    wait_until(may_end.exists)
    ended.touch()


def give_a_generator() -> object:
    return (number for number in range(3))


def ask(work: Callable[[], R]) -> R:
    return asyncio.run(in_process(work, CapacityLimiter(1)))


def test_work_is_done_elsewhere_one_piece_after_the_other_in_one_process() -> None:
    worker = ask(os.getpid)

    assert worker != os.getpid()
    assert ask(os.getpid) == worker


def test_what_answers_gives_way_to_nobody_and_what_is_in_the_background_to_all() -> None:
    async def niceness() -> tuple[int, int]:
        limiter = CapacityLimiter(1)
        return await in_process(partial(os.nice, 0), limiter), await in_background(partial(os.nice, 0), limiter)

    answers, background = asyncio.run(niceness())

    assert answers == os.nice(0)
    assert background > os.nice(0)


def test_as_much_is_done_at_once_as_the_limiter_allows() -> None:
    async def workers() -> set[int]:
        limiter = CapacityLimiter(2)
        return {*await asyncio.gather(*(in_process(partial(pid_after, 0.2), limiter) for _ in range(4)))}

    assert len(asyncio.run(workers())) == 2


@pytest.mark.parametrize("byte_size", [0, 1, 64 * 1024, 3_000_001, 20 * MIB])
def test_bytes_of_any_size_go_there_and_back(byte_size: int) -> None:
    sent = (bytes(range(256)) * (byte_size // 256 + 1))[:byte_size]

    assert ask(partial(turned_around, [sent, b"between", sent])) == [sent, b"between", sent]
    assert ask(partial(turned_around, [b"less"])) == [b"less"]


def test_without_memory_of_both_all_goes_through_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [bytes(3_000_001)]
    monkeypatch.delattr(os, "memfd_create")
    os.kill(ask(os.getpid), signal.SIGKILL)  # so that a new one is started

    assert ask(partial(turned_around, sent)) == sent


def test_what_cannot_come_back_is_an_error() -> None:
    with pytest.raises(TypeError, match="generator"):
        ask(give_a_generator)


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
