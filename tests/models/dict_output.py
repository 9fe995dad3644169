import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return {"doubled": x * 2, "halved": x / 2}
