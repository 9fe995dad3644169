import random

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        drawn = torch.tensor([random.random(), 1.0])
        return x * drawn
