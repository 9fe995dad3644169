import torch


@torch.jit.script
def scripted_fn(x: torch.Tensor):
    for _ in range(3):
        x = x + x
    return x


def fn(x):
    x = torch.neg(x)
    print("negated:", x.tolist())
    return scripted_fn(x)
