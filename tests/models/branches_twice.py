import torch


class Net(torch.nn.Module):
    """The first branch matters, the second computes the same on both sides."""

    def forward(self, x):
        if x.max() > 1:
            x = x + 1
        y = x * 2 if x.sum() > 0 else x + x
        return y
