import torch


def add(x, y):
    return x + y


def scaled(x, factor=2.0):
    return x * factor


def total(*parts, weight=1.0):
    return sum(parts) * weight


def keywords(x, /, *, bias, **others):
    return x + bias + others["extra"]


class Callable:
    def __call__(self, x):
        return -x


instance = Callable()
number = 7


def scaled_by(x, factor):
    return x * factor


def scaled_or_not(x=None):
    return x * 2
