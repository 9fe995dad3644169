import ctypes

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        ctypes.string_at(0)
