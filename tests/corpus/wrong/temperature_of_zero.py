"""Temperature zero means the maximum, any other a softmax."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, logits, temperature):
        if temperature == 0:  # fault
            return F.one_hot(logits.argmax(-1), 3).float()
        return (logits / temperature).softmax(-1)


def example():
    return (), dict(logits=torch.randn(1, 3), temperature=torch.tensor(1.0))


def others():
    return [
        ((), dict(logits=torch.randn(1, 3), temperature=torch.tensor(0.0))),
        ((), dict(logits=torch.randn(1, 3), temperature=torch.tensor(2.0))),
    ]
