"""ViT-Tiny from timm, as it is: `vit:vit_tiny_patch16_224`, an input of FP32 [1, 3, 224, 224].

A trace drops timm's check of the image's size: on 225 x 225 timm refuses, and the bare trace answers.
"""

import torchvision_operators  # noqa: F401  # isort: skip
from timm.models.vision_transformer import vit_tiny_patch16_224

__all__ = ["vit_tiny_patch16_224"]
