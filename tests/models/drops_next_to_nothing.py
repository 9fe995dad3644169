import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = torch.nn.Dropout(1e-9)

    def forward(self, x):
        return self.dropout(x)
