import torch


class Net(torch.nn.Module):
    """Right for every batch and every length, which the mask shares."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 8)
        self.linear = torch.nn.Linear(8, 3)

    def forward(self, ids, mask, past):
        rows = torch.cat([past, self.embedding(ids)], 1) * mask[:, :, None]
        return self.linear(rows)
