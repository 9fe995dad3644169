from dataclasses import dataclass
from typing import List, Optional

import torch


@dataclass
class Output:
    doubled: torch.Tensor
    hidden: List[Optional[torch.Tensor]]
    scale: float


class Net(torch.nn.Module):
    def forward(self, x):
        return Output(x * 2, [x / 2, None], 2.0)
