import torch

print("imported")


class Net(torch.nn.Module):
    def forward(self, x):
        print("called \x1b[2J")
        return x + 1
