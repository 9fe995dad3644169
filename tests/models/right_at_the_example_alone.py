"""Models whose traces are right at the example's sizes, on its values, and wrong at some other sizes or values there."""

import torch
from torch import nn


class ReadsAValueOfLongInputs(nn.Module):
    def forward(self, x):
        if x.shape[1] > 12 and x.sum() > 0:
            return x + 1
        return x


class ReadsAValueThenALength(nn.Module):
    def forward(self, x):
        if x.sum() > 0 and x.shape[1] > 12:
            return x + 1
        return x


class ReadsALargeValueThenALength(nn.Module):
    def forward(self, x):
        if x.max() > 3.9 and x.shape[1] > 500:
            return x + 1
        return x


class ScalesItsPeakAtOneLength(nn.Module):
    def forward(self, x):
        peak = x.abs().max().item()
        return x / 2 if peak > 100.0 and x.shape[1] == 64 else x


class CountsHundredsWherePositive(nn.Module):
    def forward(self, x):
        return x + int(bool(x[0, 0] > 0)) * (x.shape[1] // 100)


class DropsNansOfLongInputs(nn.Module):
    def forward(self, x):
        if torch.isnan(x).any():
            if x.shape[1] > 16:
                return torch.zeros_like(x)
        return x


class ReadsTwoValuesThenALength(nn.Module):
    def forward(self, x):
        first, last = bool(x[0, 0] > 1.5), bool(x[0, -1] > 1.5)
        if first and last and x.shape[1] > 20:
            return x * 3
        return x


class KnowsTheTextOfALength(nn.Module):
    def forward(self, x):
        return x * {"777": 2.0}.get(f"{x.shape[1]}", 1.0)


class EndsInSevens(nn.Module):
    def forward(self, x):
        return x + 1 if str(x.shape[1]).endswith("77") else x


class AsksWhetherALengthIsAnInt(nn.Module):
    def forward(self, x):
        length = x.shape[1]
        return x + (1 if isinstance(length, int) and length == 700 else 0)


class RaisesALengthBeyond64Bits(nn.Module):
    def forward(self, x):
        return x + (x.shape[1] ** 9) % 13


class MultipliesBeyond64Bits(nn.Module):
    def forward(self, x):
        return x + (x.shape[1] * 1000003 * 1000003 * 1000003) % 11


class DoublesBeyond64Bits(nn.Module):
    def forward(self, x):
        return x * (2 ** x.shape[1] % 7)


class AddsTruths(nn.Module):
    def forward(self, x):
        return x * ((x.shape[1] > 16) + (x.shape[1] > 100))


class StepsByAnInverse(nn.Module):
    def forward(self, x):
        return x.sum() + torch.arange(0, 1, 1 / x.shape[1])


class EndsAtRoundedLengths(nn.Module):
    def forward(self, x):
        return x.mean() + torch.arange(x.shape[1] * 0.1 * 10)


class AmplifiesRounding(nn.Module):
    def forward(self, x):
        return x + (x.shape[1] * 1234567.0 + 0.5) % 7 * (x.shape[1] > 8)


class VariesInDoubles(nn.Module):
    def forward(self, x):
        x = x.double()
        mean = x.sum(1, keepdim=True) * (1 / x.shape[1])
        return (x - mean).square().sum(1)


class CentresDoublesByAnInverse(nn.Module):
    def forward(self, x):
        x = x.double()
        return x - x.sum(1, keepdim=True) * (1 / x.shape[1] / 3) * 3
