import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2 if torch.is_grad_enabled() else x * 3
