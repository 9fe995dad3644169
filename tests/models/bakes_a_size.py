import torch


class Net(torch.nn.Module):
    def forward(self, x):
        length = x.shape[0]
        weights = torch.tensor([1.0 / length] * length)
        return weights @ x
