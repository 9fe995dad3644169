import torch


@torch.jit.script
def halves(x):
    if x.sum() > 0:
        print("ran as", type(halves).__name__)
    return x / 2


class Net(torch.nn.Module):
    def forward(self, x, scale: float = 1.0):
        return {"half": halves(x) * scale, "scale": scale, "names": ["a", None]}
