import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x + torch.ones(4, device="cpu")
