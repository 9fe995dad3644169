import torch


class Net(torch.nn.Module):
    """On purpose, and the trace keeps it."""

    def __init__(self):
        super().__init__()
        self.backbone = torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.backbone(x).detach() + x)
