import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.arange(10.0))

    def forward(self, ids):
        return self.table[int(ids[0])] + ids
