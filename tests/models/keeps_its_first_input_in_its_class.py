import torch


class Net(torch.nn.Module):
    first = {}

    def forward(self, x):
        if "x" not in Net.first:
            Net.first["x"] = x.clone()
        return x + Net.first["x"]
