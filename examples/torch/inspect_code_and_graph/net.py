import torch


def foo(steps: int):
    rv = torch.zeros(3, 4)
    for i in range(steps):
        if i < 10:
            rv = rv - 1.0
        else:
            rv = rv + 1.0
    return rv
