import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return (x, (torch.nn.functional.dropout(x, 0.5),))
