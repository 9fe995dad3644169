import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return {"a.b": x, "a": {"b": x}}
