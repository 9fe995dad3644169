"""Right where they are scripted: loops and branches over sizes. A class whose name begins with Wrong differs there."""

import torch
from torch import nn

LENGTH = 8


class Slices(nn.Module):
    def forward(self, x):
        half = (x.size(1) + 1) // 2
        return x[:, :half].sum(1) + x[:, half:].sum(1)


class WrongSlices(nn.Module):
    def forward(self, x):
        if torch.jit.is_scripting():
            return x[:, : x.size(1) // 2]
        return x[:, : x.size(1) // 2 + x.size(1) % 2]


class Lists(nn.Module):
    def forward(self, x):
        parts = [part.cumsum(1) for part in torch.split(x, 4, 1)]
        parts = parts[1:] + parts[:1] + [x] * 2
        parts.insert(0, parts.pop())
        parts.reverse()
        return torch.cat(parts, 1)


class WrongLists(nn.Module):
    def forward(self, x):
        parts = [part.cumsum(1) for part in torch.split(x, 4, 1)]
        if torch.jit.is_scripting():
            parts.insert(0, parts.pop())
        return torch.cat(parts, 1)


class Subtracts(nn.Module):
    def forward(self, x):
        return 1 - x.tanh()


class WrongSubtracts(nn.Module):
    """A script computes 1.5 - x as -x + 1.5. The negative of a byte is no negative number, unless it is 0."""

    def forward(self, x):
        return 1.5 - x.to(torch.uint8)


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(1, 2)

    def forward(self, x):
        state = torch.zeros(x.size(0), 2)
        for place in range(x.size(1)):
            state = self.cell(x[:, place].unsqueeze(1), state)
        return state


class WrongSteps(nn.Module):
    def forward(self, x):
        state = x[:, 0]
        for place in range(1, x.size(1)):
            state = torch.tanh(state + x[:, place])
            if torch.jit.is_scripting() and place >= 10:
                state = state * 2
        return state


@torch.jit.script
def smooth(x, weight: float, first: int = 0):
    state = x[:, first]
    states = [state]
    for place in range(first + 1, x.size(1)):
        state = weight * state + (1 - weight) * x[:, place]
        states.append(state)
    return torch.stack(states, 1)


class CallsAFunction(nn.Module):
    def forward(self, x):
        return smooth(x, 0.5) + 1


class CallsAModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = torch.jit.script(Steps())

    def forward(self, x):
        return self.steps(x).sum(1)


@torch.jit.script
def gate(x):
    return x * torch.sigmoid(x)


class CallsAnActivation(nn.Module):
    def forward(self, x):
        return gate(x) - gate(x.mean(1, keepdim=True))


@torch.jit.script
def scale(x, factor: float):
    return x * factor


class WrongFactor(nn.Module):
    """A trace has the number, and the model computes it of the size."""

    def forward(self, x):
        return scale(x, float(int(x.shape[1])))


@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.count = start

    def add(self, more: int) -> int:
        self.count += more
        return self.count


@torch.jit.script
def count(x):
    counter = Counter(1)
    return x + counter.add(2)


class CallsAClass(nn.Module):
    """What a script does with an object is not run on symbols."""

    def forward(self, x):
        return count(x)
