"""Models of which values decide a size, that refuse some of these sizes, or seem to."""

import contextlib

import torch
from torch import nn


class CountsDegrees(nn.Module):
    """Divides by how many edges lead to each node. An edge to a node that is not there gives one number too many."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, targets):
        degrees = torch.bincount(targets, minlength=x.shape[0])
        return self.linear(x) / degrees.clamp(min=1)[:, None]


class AssertsThatSomeArePositive(nn.Module):
    def forward(self, x):
        assert x[x > 0].shape[0] > 0
        return x * 2


class RaisesWithoutPositives(nn.Module):
    def forward(self, x):
        positives = x[x > 0]
        if positives.numel() == 0:
            raise ValueError("all are negative")
        return x - positives.mean()


class TakesTheSumOfFurtherOnes(nn.Module):
    def forward(self, x, targets):
        degrees = torch.bincount(targets, minlength=x.shape[0])
        try:
            return x / degrees.clamp(min=1)[:, None]
        except RuntimeError:
            return x * degrees.sum()


class SuppressesItsOwnCheck(nn.Module):
    def forward(self, x):
        with contextlib.suppress(AssertionError):
            assert x[x > 0].shape[0] > 0
            return x * 2
        return x * 3


class DoublesWhereOneIsPositive(nn.Module):
    def forward(self, x):
        count = x[x > 0].shape[0]
        assert count > 0
        return x * 2 if count == 1 else x


class CountsFromFive(nn.Module):
    def forward(self, x):
        count = x[x > 0].shape[0]
        assert count > 0
        return x * count if count > 4 else x


class RefusesSeveral(nn.Module):
    """All but one are refused by a number that is less than some of them, not all."""

    def forward(self, x):
        count = x[x > 0].shape[0]
        if count > 9:
            raise ValueError("too many are positive")
        return x * 2 if count < 6 else x


class CountsWhatItRefuses(nn.Module):
    def __init__(self):
        super().__init__()
        self.refused = 0

    def forward(self, x):
        self.refused += 1
        assert x[x > 0].shape[0] > 0
        self.refused -= 1
        return x * (1 + self.refused)


class TakesAnotherErrorForARefusal(nn.Module):
    """The size knows its bits, also where it is a symbol in the proof and not Python's own."""

    def forward(self, x):
        count = x[x > 0].shape[0]
        try:
            is_large = count.__class__.__mro__[1] is object and count > 4
        except TypeError:
            is_large = False
        if not (is_large or count < 100000):
            raise ValueError
        return x * 2 if is_large else x
