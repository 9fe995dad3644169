import numpy as np
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        sines = torch.from_numpy(np.sin(x.numpy()))
        return x + sines


class ByDlpack(torch.nn.Module):
    def forward(self, x):
        return torch.from_dlpack(x.detach()) * 2


class ByList(torch.nn.Module):
    def forward(self, x):
        return x + torch.tensor(x.tolist())
