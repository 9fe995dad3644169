import torch


class Net(torch.nn.Module):
    """Reads a value, so that no run without values gets through it; the second input is twice as long."""

    def forward(self, x, doubled, switch):
        if switch > 1:
            x = x * 1
        return torch.cat([x, x], 1) + doubled
