"""A global dict is the namespace of a text that runs, so that Python's own names are in it, and another is sys.modules."""

import sys

import torch

NAMESPACE = {}
MODULES = sys.modules
exec("def twice(x):\n    return 2 * x\n", NAMESPACE)


class Net(torch.nn.Module):
    def forward(self, x):
        return NAMESPACE["twice"](x)
