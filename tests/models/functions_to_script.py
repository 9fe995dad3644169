from typing import Optional, Tuple

import torch


def clamped(x, limits: Tuple[float, float], bias: Optional[torch.Tensor] = None, dtype: torch.dtype = torch.float32):
    low, high = limits
    y = torch.clamp(x, low, high) if bool(x.sum() > 0) else -x
    return (y if bias is None else y + bias).to(dtype)


def commented(x, times):
    # type: (torch.Tensor, int) -> torch.Tensor
    for _ in range(times):
        x = x * 2
    return x


def variadic(x, *others):
    return x


@torch.jit.script
def branches(x, scale: float = 2.0):
    if bool(x.sum() > 0):
        return x * scale
    return x - scale
