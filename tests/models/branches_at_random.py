import random

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if random.random() < 0.5:
            return x * 2
        return x + 1
