"""Models that call functions whose results `functools` keeps. Those in WRONG answer by which calls came before."""

import functools
from types import SimpleNamespace

import torch
from torch import nn

LONG = 10  # only sizes beyond the example's go another way


@functools.lru_cache
def causal(length):
    return torch.tril(torch.ones(length, length))


class MasksByLength(nn.Module):
    def forward(self, x):
        return causal(x.shape[1]) @ x


@functools.lru_cache(maxsize=4)
def positions(length, width, *, scale=0.5, device=None):
    angles = torch.arange(length, device=device)[:, None] * torch.arange(width, device=device)
    return angles.cos() * scale, angles.sin() * scale


@functools.cache
def halves(length):
    return causal(length) / 2 + causal(length // 2 + 1).sum()


class KeepsTablesOfSeveralKinds(nn.Module):
    """By its own method, by a function that calls another one, and with arguments by name; in two parts."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.7))

    @functools.lru_cache
    def table(self, length):
        return torch.arange(length)[:, None] * self.scale

    @staticmethod
    @functools.cache
    def ramp(length):
        return torch.linspace(0, 1, length)[:, None]

    def forward(self, x):
        length = x.shape[1]
        cos, sin = positions(length, x.shape[2], device=x.device)
        return halves(length) @ (x * cos + x * sin) + self.table(length) * self.ramp(length) + causal(length) @ x


misses = 0


@functools.lru_cache
def counted(length):
    global misses
    misses += 1
    return torch.ones(length, 1) * misses


class CountsWhatItsCacheMisses(nn.Module):
    def forward(self, x):
        return x + counted(x.shape[1])


def make_counted():
    count = 0

    @functools.lru_cache
    def table(length):
        nonlocal count
        count += 1
        return torch.ones(length, 1) * count

    return table


counted_in_a_closure = make_counted()


class CountsInAClosure(nn.Module):
    def forward(self, x):
        return x + counted_in_a_closure(x.shape[1])


rows = 1


@functools.lru_cache
def filled_by_rows(length):
    return torch.ones(length, 1) * rows


class KeepsTheRowsOfTheFirst(nn.Module):
    """The table has the number of rows of the call that was the first of this length."""

    def forward(self, x):
        global rows
        rows = x.shape[0]
        return x + filled_by_rows(x.shape[1])


class KeepsTheRowsOfTheFirstUnseen(nn.Module):
    def forward(self, x):
        global rows
        rows = x.shape[0]
        answer = x + filled_by_rows(x.shape[1])
        rows = 1
        return answer


deep = SimpleNamespace(a=SimpleNamespace(a=SimpleNamespace(a=SimpleNamespace(a=SimpleNamespace(rows=1)))))


@functools.lru_cache
def filled_from_the_depth(length):
    return torch.ones(length, 1) * deep.a.a.a.a.rows


class KeepsTheRowsOfTheFirstInTheDepth(nn.Module):
    def forward(self, x):
        deep.a.a.a.a.rows = x.shape[0]
        return x + filled_from_the_depth(x.shape[1])


@functools.lru_cache
def shortened_from_the_depth(length):
    return torch.ones(length, 1) if deep.a.a.a.a.rows > 2 else torch.zeros(length, 1)


class KeepsTheBranchOfTheFirstInTheDepth(nn.Module):
    def forward(self, x):
        deep.a.a.a.a.rows = x.shape[0]
        return x + shortened_from_the_depth(x.shape[1])


class KeepsTheFirstInput(nn.Module):
    def forward(self, x):
        deep.a.a.a.a.x = x
        return x + kept_input(x.shape[1])


@functools.lru_cache
def kept_input(length):
    return torch.ones(length, 1) * deep.a.a.a.a.x.mean()


@functools.lru_cache
def written(length):
    return torch.zeros(length, 1)


class WritesIntoLongOnes(nn.Module):
    def forward(self, x):
        table = written(x.shape[1])
        if x.shape[1] > LONG:
            table += 1
        return x + table


class WritesIntoViewsOfManyRows(nn.Module):
    def forward(self, x):
        if x.shape[0] > 2:
            written(x.shape[1])[0].add_(1)
            return x
        return x + written(x.shape[1])


class CountsInAnAttributeOfLongOnes(nn.Module):
    def forward(self, x):
        table = causal(x.shape[1])
        if x.shape[1] <= LONG:
            return table @ x
        table.calls = getattr(table, "calls", 0) + 1
        return table @ x * table.calls


@functools.lru_cache
def listed(length):
    return [torch.zeros(length, 1)]


class AppendsToLongOnes(nn.Module):
    def forward(self, x):
        tables = listed(x.shape[1])
        if x.shape[1] > LONG:
            tables.append(tables[-1] + 1)
        return x + tables[-1]


@functools.lru_cache
def of_kind(length, value):
    return torch.full((length, 1), value).to(torch.float32) * torch.full((), value).element_size()


class TakesIntegersAndFloatsForTheSame(nn.Module):
    """A table of floats that a long input has made is another than that of integers."""

    def forward(self, x):
        if x.shape[1] > LONG:
            list(map(of_kind, (5,), (x.shape[0] * 1.0 if x.shape[0] == 1 else 2.0,)))
        return x + of_kind(5, x.shape[0]).sum() * torch.ones(x.shape[1], 1)


@functools.lru_cache
def noise(length):
    return torch.randn(length, 1)


class DrawsOnce(nn.Module):
    def forward(self, x):
        return x + noise(x.shape[1])


@functools.lru_cache
def disguised(length):
    global misses
    misses += 1
    return torch.ones(length, 1) * misses


def _honest(length):
    return torch.ones(length, 1)


disguised.__wrapped__ = _honest


class ShowsAnotherFunction(nn.Module):
    def forward(self, x):
        return x + disguised(x.shape[1])


class ChangesItsScaleAfterwards(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1

    @functools.lru_cache
    def table(self, length):
        return torch.ones(length, 1) * self.scale

    def forward(self, x):
        answer = x + self.table(x.shape[1])
        self.scale = x.shape[0]
        return answer


longest = 0


@functools.lru_cache
def of_the_longest(length):
    global longest
    longest = max(longest, length)
    return torch.arange(length)[:, None] / longest


class ScalesByTheLongest(nn.Module):
    def forward(self, x):
        return x + of_the_longest(x.shape[1])


@functools.lru_cache
def outer(length):
    inner = written(length)
    inner += 1
    return inner * 2


class WritesIntoAnInnerOne(nn.Module):
    def forward(self, x):
        return x + written(x.shape[1]) + outer(x.shape[1])


# By name: calls by their rows and length, of which the last one is answered otherwise than without those before.
WRONG = {
    CountsWhatItsCacheMisses: [(2, 9), (2, 7)],
    CountsInAClosure: [(2, 9), (2, 7)],
    KeepsTheRowsOfTheFirst: [(3, 7), (2, 7)],
    KeepsTheRowsOfTheFirstUnseen: [(3, 7), (2, 7)],
    KeepsTheRowsOfTheFirstInTheDepth: [(3, 7), (2, 7)],
    KeepsTheBranchOfTheFirstInTheDepth: [(3, 7), (2, 7)],
    KeepsTheFirstInput: [(2, 7), (2, 7)],
    WritesIntoLongOnes: [(2, 12), (2, 12)],
    WritesIntoViewsOfManyRows: [(3, 7), (2, 7)],
    CountsInAnAttributeOfLongOnes: [(2, 12), (2, 12)],
    AppendsToLongOnes: [(2, 12), (2, 12)],
    TakesIntegersAndFloatsForTheSame: [(3, 12), (2, 8)],
    DrawsOnce: [(2, 7), (2, 7)],
    ShowsAnotherFunction: [(2, 9), (2, 7)],
    ChangesItsScaleAfterwards: [(3, 7), (2, 9)],
    ScalesByTheLongest: [(2, 12), (2, 7)],
    WritesIntoAnInnerOne: [(2, 7), (2, 7)],
}
