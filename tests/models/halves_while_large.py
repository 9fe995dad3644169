import torch


@torch.jit.script
def halved(x: torch.Tensor) -> torch.Tensor:
    for _ in range(int(x.abs().max().clamp(max=4.0))):
        x = x / 2
    return x


class Net(torch.nn.Module):
    def forward(self, x):
        return halved(x) * 2
