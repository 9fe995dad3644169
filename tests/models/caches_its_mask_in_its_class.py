import torch


class Net(torch.nn.Module):
    masks = {}

    def forward(self, x):
        size = x.shape[-1]
        if size not in Net.masks:
            Net.masks[size] = torch.ones(size).cumsum(0)
        return x * Net.masks[size]
