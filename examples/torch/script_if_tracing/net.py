import torch


@torch.jit.script_if_tracing
def total(x):
    result = x[0]
    for i in range(1, x.size(0)):
        result = result + x[i]
    return result


def forward(x):
    return total(x) * 2
