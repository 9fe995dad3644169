import torch


class Net(torch.nn.Module):
    def forward(self, x):
        made = x * 2
        made[0].add_(1)
        return made
