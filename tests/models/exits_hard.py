import os

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        os._exit(3)
