import torch


class Net(torch.nn.Module):
    def forward(self, größe):
        return größe + 1
