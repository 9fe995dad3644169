import torch


class Net(torch.nn.Module):
    def forward(self, x, mask):
        if (mask == 1).all():
            return x.clone()
        return x * mask
