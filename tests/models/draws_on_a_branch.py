import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if bool((x > 50).all()):
            return x + torch.rand(4)
        return x
