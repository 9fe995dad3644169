"""A model that reads a value only where a size that values decide is 0."""

from torch import nn


def count_halves(x):
    return x[x == 0.5].shape[0]


class AsksForItsSumWithoutHalves(nn.Module):
    """At the example's sizes nothing follows from its sum."""

    def forward(self, x):
        if count_halves(x) == 0:
            return x * 2 if x.sum() > 0 or x.shape[0] < 7 else x * 3
        return x * 2
