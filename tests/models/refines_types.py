from typing import List, Optional, Union

import torch


class Net(torch.nn.Module):
    def forward(self, x, scale: Optional[torch.Tensor] = None, by: Union[int, List[int]] = 3):
        if isinstance(scale, torch.Tensor):
            x = x * scale
        if isinstance(by, int):
            return x + by
        return x + by[0]
