import torch

calls = 0


class Net(torch.nn.Module):
    def forward(self, x):
        global calls
        calls += 1
        return x + (calls > 60)
