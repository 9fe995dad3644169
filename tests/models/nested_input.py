import torch


class Net(torch.nn.Module):
    def forward(self, pair, batch, factor, names=("a",), mask=None):
        left, right = pair
        y = left + right * batch["scale"] * factor
        return y if mask is None else y.masked_fill(mask, 0.0)
