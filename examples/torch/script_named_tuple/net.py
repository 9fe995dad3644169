from typing import NamedTuple

import torch


class Point(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


def turned(x, y) -> Point:
    point = Point(x, y)
    return Point(-point.y, point.x)
