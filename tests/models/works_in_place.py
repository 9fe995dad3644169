import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv1d(1, 3, 2)
        self.norm = torch.nn.BatchNorm1d(3)
        self.relu = torch.nn.ReLU(inplace=True)

    def forward(self, x):
        self.relu(x)
        return self.relu(self.norm(self.convolution(x.unsqueeze(1))))
