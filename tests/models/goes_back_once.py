import torch


class Net(torch.nn.Module):
    """Where it is traced, what the way back needs is written over: the answers are the same."""

    def forward(self, x):
        y = x.exp()
        return y.mul_(1) if torch.jit.is_tracing() else y
