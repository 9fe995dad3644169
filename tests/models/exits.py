import sys

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        sys.exit(3)
