import torch

SENTINEL = object()


def takes_one_alone(module, args, kwargs):
    if len(args) != 1 or kwargs:
        raise TypeError(f"given {len(args)} and {sorted(kwargs)}")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_forward_pre_hook(takes_one_alone, with_kwargs=True)

    def forward(self, x, scale=2.0, bias=torch.ones(4), odd=SENTINEL, names=("a", "b"), limit=float("inf"), mask=None):
        assert odd is SENTINEL
        return torch.clamp(x * scale + bias, max=limit) * len(names)


def between(x, scale=2.0, y=None, *, flag=True, words=("w",) * 1000):
    return x * scale + (y if flag else 0.0)
