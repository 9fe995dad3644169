import torch
from torch.jit import Final


class Net(torch.nn.Module):
    times: Final[int]

    def __init__(self):
        super().__init__()
        self.times = 3
        self.debug = False

    def forward(self, x):
        for _ in range(self.times):
            x = x * 2
        if self.debug:
            return self.shown(x)
        if not torch.jit.is_scripting():
            self.printed(x)
        return x if bool(x.sum() > 0) else -x

    @torch.jit.export
    def summed(self, x):
        return self.forward(x).sum()

    @torch.jit.unused
    def shown(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError(f"{x!r}")

    @torch.jit.ignore
    def printed(self, x):
        try:
            print(x)
        finally:
            pass
