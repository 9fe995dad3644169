"""Values that are other ones in each call on the same inputs: a count outside of the model is found, wherever it is,
and what a model only logs, or keeps by the address of an object, is no cause."""

import functools
import gc
import json
import logging
import re
import threading
import time
import types
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator

import pytest
import torch

import tracehouse
from tracehouse.check.report import Report

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

N = 60  # no call of a check is as late as that


@functools.lru_cache
def half(number: int) -> float:
    return number / 2


class Library:
    """Stands for what another package keeps: its classes, functions and instances are not the model's."""

    log = logging.getLogger("of a library")


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    name, handlers, encoder = threading.current_thread().name, [*Library.log.handlers], dict(vars(json.JSONEncoder))
    yield
    threading.current_thread().name = name
    Library.log.handlers[:] = handlers
    for kept in ("calls", "pool", "turn", "kept"):
        vars(Library.log).pop(kept, None)
    for added in vars(json.JSONEncoder).keys() - encoder.keys():
        delattr(json.JSONEncoder, added)
    half.cache_clear()
    re.purge()


class Counting(torch.nn.Module):
    """Doubles its answers from the sixtieth call on."""

    def count(self) -> float:
        raise NotImplementedError

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if self.count() > N else x + 1


class InTheHitsOfACache(Counting):
    def count(self) -> float:
        half(3)
        return half.cache_info().hits


class InAnAttributeOfALogger(Counting):
    def count(self) -> float:
        Library.log.calls = getattr(Library.log, "calls", 0) + 1
        return Library.log.calls


class InTheHandlersOfALogger(Counting):
    def count(self) -> float:
        Library.log.addHandler(logging.NullHandler())
        return len(Library.log.handlers)


class InAnotherPackagesClass(Counting):
    def count(self) -> float:
        json.JSONEncoder.calls = getattr(json.JSONEncoder, "calls", 0) + 1
        return json.JSONEncoder.calls


class InAThreadsName(Counting):
    def count(self) -> float:
        threading.current_thread().name += "x"
        return len(threading.current_thread().name) - 10


class InTheNumbersOfHooks(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Identity()

    def count(self) -> float:
        handle = self.layer.register_forward_hook(lambda *_: None)
        handle.remove()
        return handle.id - 10_000


class AtOneCallAlone(torch.nn.Module):
    """Doubles one answer, the hundredth."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Library.log.calls = getattr(Library.log, "calls", 0) + 1
        return x * 2 if Library.log.calls == 100 else x + 1


class ByAText(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Library.log.kept = getattr(Library.log, "kept", "") + "."
        return x * 2 if f"{Library.log.kept}!" == "...............................................!" else x + 1


class InTheLengthOfAChain(Counting):
    """Nothing but a count of its own, that begins anew in each call, says how long the chain is."""

    def count(self) -> float:
        Library.log.kept = link = types.SimpleNamespace(next=getattr(Library.log, "kept", None))
        count = 0
        while link is not None:
            link = link.next
            count += 1
        return count


class InTheRoundsOfALoop(Counting):
    def count(self) -> float:
        vars(Library.log).setdefault("kept", []).append(None)
        count = 0
        for _ in Library.log.kept:
            count += 1
        return count


class InATupleThatIsUnpacked(Counting):
    def count(self) -> float:
        calls, _ = vars(Library.log).get("kept", (0, 0))
        Library.log.kept = (calls + 1, 0)
        return calls


class InATensorsLength(Counting):
    def count(self) -> float:
        Library.log.kept = torch.cat([vars(Library.log).get("kept", torch.zeros(1)), torch.zeros(1)])
        return Library.log.kept.numel()


class ByWhatIsBeyondAnItem(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        vars(Library.log).setdefault("kept", []).append(1)
        return x * 2 if Library.log.kept[60:] else x + 1


class ByATable(torch.nn.Module):
    """Compares its count with nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Library.log.calls = getattr(Library.log, "calls", 0) + 1
        return x * {77: 2.0}.get(Library.log.calls, 1.0)


class BetweenTwoNumbers(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Library.log.calls = getattr(Library.log, "calls", 0) + 1
        return x * 2 if 90 <= Library.log.calls <= 95 else x + 1


class ByTheStartOfAText(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Library.log.calls = getattr(Library.log, "calls", 0) + 1
        return x * 2 if str(Library.log.calls).startswith("77") else x + 1


class TakesFromAStock(torch.nn.Module):
    """Doubles its answers when nothing is left."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        stock = vars(Library.log).setdefault("kept", [None] * 60)
        if stock:
            stock.pop()
            return x + 1
        return x * 2


COUNTING: list[type[torch.nn.Module]] = [
    InTheHitsOfACache, InAnAttributeOfALogger, InTheHandlersOfALogger, InAnotherPackagesClass, InAThreadsName,
    InTheNumbersOfHooks, AtOneCallAlone, ByAText, InTheLengthOfAChain, InTheRoundsOfALoop, InATupleThatIsUnpacked,
    InATensorsLength, ByWhatIsBeyondAnItem, ByATable, BetweenTwoNumbers, ByTheStartOfAText, TakesFromAStock,
]  # fmt: skip


class LogsItsHits(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * half(3)
        found = half.cache_info()
        Library.log.debug("%d of %d calls", found.hits, found.hits + found.misses)
        return y


class LogsEachHundredth(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Library.log.calls = getattr(Library.log, "calls", 0) + 1
        if Library.log.calls % 100 == 0:
            Library.log.debug("%d calls", Library.log.calls)
        return x + 1


class NamesItsRequests(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        name = str(uuid.uuid4())
        times = {name: 2.0}
        Library.log.debug(f"request {name}")
        return x * times[name]


class KeepsByAddress(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept: OrderedDict[int, float] = vars(Library.log).setdefault("kept", OrderedDict())
        kept[id(x)] = 2.0
        while len(kept) > 3:
            kept.popitem(last=False)
        return x * kept[id(x)]


class TakesBuffersByTurns(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pool = vars(Library.log).setdefault("pool", [torch.ones(3), torch.ones(3)])
        Library.log.turn = (getattr(Library.log, "turn", 0) + 1) % 2
        return x * pool[Library.log.turn]


class LogsItsObjects(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = gc.get_count()[0]
        y = x + 1
        Library.log.debug("%d new objects", gc.get_count()[0] - before)
        return y


class NumbersItsItems(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = getattr(Library.log, "calls", 0)
        Library.log.calls = first + 3
        scales = dict.fromkeys(range(first, first + 3), 2.0)
        return x * sum(scales[number] for number in range(first, first + 3))


class WaitsForItsTurn(torch.nn.Module):
    """Would wait for ever for the turn of another call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = getattr(Library.log, "calls", 0)
        threading.Thread(target=setattr, args=(Library.log, "calls", before + 1)).start()
        while getattr(Library.log, "calls", 0) <= before:
            time.sleep(1e-4)
        return x + 1


HARMLESS: list[type[torch.nn.Module]] = [
    LogsItsHits, NamesItsRequests, KeepsByAddress, TakesBuffersByTurns, LogsItsObjects, NumbersItsItems,
    WaitsForItsTurn,
]  # fmt: skip


def check(model: Callable[[], torch.nn.Module]) -> Report:
    return tracehouse.check(model().eval(), torch.randn(2, 3))


@pytest.mark.parametrize("model", COUNTING)
def test_a_count_outside_of_the_model_rejects_it_with_its_line(model: type[torch.nn.Module]) -> None:
    report = check(model)

    assert report.verdict == "rejected"
    found = [one for one in report.findings if "another one in each call" in one.detail]
    assert found
    assert any(word in str(found[0].source) for word in ("count", "calls", "len", "kept", "hits", "handle", "stock"))


@pytest.mark.parametrize("model", HARMLESS)
def test_what_changes_from_call_to_call_and_decides_nothing_is_no_cause(model: type[torch.nn.Module]) -> None:
    assert_harmless(check(model))


def test_a_count_that_decides_what_is_logged_is_no_cause_and_is_not_moved_on() -> None:
    assert_harmless(check(LogsEachHundredth))

    assert 0 < vars(Library.log)["calls"] < 1_000


def assert_harmless(report: Report) -> None:
    assert report.verdict == "verified"
    assert not [one for one in report.findings if "another one in each call" in one.detail]


class LooksAtTheLastBatch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = getattr(Library.log, "kept", len(x))
        Library.log.kept = len(x)
        return x + 1 if before == len(x) else x * 2


def test_an_answer_that_depends_on_the_sizes_of_the_call_before_rejects_the_model() -> None:
    report = check(LooksAtTheLastBatch)

    assert report.verdict == "rejected"
    assert "hidden-state" in {one.kind for one in report.findings}
