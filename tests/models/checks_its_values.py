import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if torch.isnan(x).any():
            raise ValueError("not a number")
        assert x.shape[1] == 4
        torch._check(bool((x < 1e6).all()))
        return x * 2
