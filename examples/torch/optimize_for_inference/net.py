import torch


def make():
    convolution = torch.nn.Conv2d(3, 32, kernel_size=3, stride=2)
    return torch.nn.Sequential(convolution, torch.nn.BatchNorm2d(32, eps=0.001))
