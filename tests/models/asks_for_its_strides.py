import torch


class Net(torch.nn.Module):
    """Computes by how its input lies in memory, which is one way for all that is sent over HTTP."""

    def forward(self, x):
        return x * (2 if x.is_contiguous() else 3)
