from typing import List, Optional, Tuple

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(
        self,
        x,
        factors: List[float],
        pair: Tuple[int, str],
        mask: Optional[torch.Tensor] = None,
        times: int = 2,
    ):
        for _ in range(times):
            x = self.layer(x) * factors[0] + pair[0]
        if bool(x.sum() > 0):
            x = -x
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        return {"scaled": x, "length": torch.tensor(len(pair[1]))}
