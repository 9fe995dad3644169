import os

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1 if os.environ.get("FAST") else x


class Logs(torch.nn.Module):
    def forward(self, x):
        if os.getenv("VERBOSE"):
            print(x.shape)
        return x * 2
