import torch


class Net(torch.nn.Module):
    def forward(self, x):
        positive = x[x > 0]
        if positive.shape[0] > 3:
            x = x + 1
        return x


class Rows(torch.nn.Module):
    def forward(self, x):
        total = x.sum()
        for place in x.nonzero():
            total = total + place[0]
        return total
