"""A ResNet-18 in plain torch: `resnet:resnet`, an input of FP32 [1, 3, 224, 224]."""

import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions beside a way around them."""

    def __init__(self, given: int, returned: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(given, returned, 3, stride), _convolution(returned, returned, 3, 1)
        is_same = given == returned and stride == 1
        self.around = nn.Identity() if is_same else _convolution(given, returned, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))) + self.around(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        widths = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
        self.blocks = nn.Sequential(
            *(
                block
                for given, returned, stride in widths
                for block in (Block(given, returned, stride), Block(returned, returned, 1))
            )
        )
        self.head = nn.Linear(512, 1000)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(pictures)).mean((2, 3)))


def resnet() -> ResNet:
    return ResNet()


def _convolution(given: int, returned: int, size: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(given, returned, size, stride, padding=size // 2, bias=False), nn.BatchNorm2d(returned)
    )
