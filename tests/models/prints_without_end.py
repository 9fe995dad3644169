import torch


class Net(torch.nn.Module):
    def forward(self, x):
        for _ in range(64):
            print("x" * 2**16)
        return x + 1
