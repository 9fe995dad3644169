import enum
import sys
import types
from collections import OrderedDict

import torch


class Proxy:
    @property
    def __class__(self):
        raise RuntimeError("settings are not configured")

    def __getattr__(self, name):
        raise RuntimeError("settings are not configured")


class Anything:
    __hash__ = None

    def __getattr__(self, name):
        return Anything()


class Locked(dict):
    def copy(self):
        raise RuntimeError("locked")

    clear = update = items = values = copy


class Colour(enum.Enum):
    RED = 1


sys.modules["anything"] = Anything()
sys.modules["unhashable"] = types.ModuleType("unhashable")
sys.modules["unhashable"].__file__ = ["here"]
settings = Proxy()
locked = Locked(a=1)
ordered = OrderedDict(a=1, b=2)
huge = 10**5000
nothing = float("nan")
on_meta = torch.zeros(2, device="meta")
sparse = torch.zeros(2).to_sparse()
expanded = torch.full((1,), float("nan")).expand(4)
itself = [settings]
itself.append(itself)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.held = [settings, locked, huge, nothing, on_meta, itself]

    def forward(self, x):
        return x * 2
