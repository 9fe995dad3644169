import torch


class Net(torch.nn.Module):
    """The trace keeps as many rounds as the example has columns, and one side of a branch on a value."""

    def forward(self, x):
        total = torch.zeros(x.shape[0])
        for column in range(x.shape[1]):
            total = total + x[:, column] * 2
        return total * 3 if x.sum() > 0 else total
