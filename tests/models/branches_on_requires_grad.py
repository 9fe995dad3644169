import torch


class Net(torch.nn.Module):
    """The same answer, by another way back."""

    def forward(self, x):
        return x * x if x.requires_grad else x * x.detach()
