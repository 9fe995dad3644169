import torch


class Net(torch.nn.Module):
    def forward(self, x):
        largest = x.max().item()
        if largest > 1e6:
            print("large:", largest)
        return x * 2
