import torch


def collatz(x):
    steps = torch.zeros(1)
    value = int(x.item())
    while value > 1:
        if value > 1000:
            break
        value = value // 2 if value % 2 == 0 else 3 * value + 1
        steps += 1
    print("it took", int(steps.item()))
    return steps
