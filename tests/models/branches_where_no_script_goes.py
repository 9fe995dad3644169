import torch

LAST = {"doubled": lambda x: x * 2}


class Net(torch.nn.Module):
    def forward(self, x):
        if bool(x.sum() > 0):
            return x * 2
        return LAST["doubled"](x)- 1
