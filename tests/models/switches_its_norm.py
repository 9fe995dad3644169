import torch


class Net(torch.nn.Module):
    """What other calls were asked is in its answers, where these are large."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        by_the_batch = self.norm(x)
        self.norm.eval()
        by_all_batches = self.norm(x)
        self.norm.train()
        return torch.where(by_all_batches > 1e6, by_all_batches, by_the_batch)
