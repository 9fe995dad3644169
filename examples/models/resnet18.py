"""ResNet-18 from timm, as it is: `resnet18:resnet18`, an input of FP32 [1, 3, 224, 224]."""

import torchvision_operators  # noqa: F401  # isort: skip
from timm.models.resnet import resnet18

__all__ = ["resnet18"]
