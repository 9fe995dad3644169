import torch


class Net(torch.nn.Module):
    def forward(self, x, mask):
        if torch.equal(mask, torch.ones_like(mask)):
            return x.clone()
        return x * mask
