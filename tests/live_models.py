"""Live models that tests send to a service: a module by itself, because what it imports goes along."""

import threading
from typing import Any

import torch


class Nests(torch.nn.Module):
    """Takes and returns nested values, of which one is no tensor."""

    def forward(self, batch: Any, pair: Any, scale: float) -> Any:
        left, right = pair
        return {"sums": (left + right, batch["values"] * scale + batch["ids"]), "kept": "text"}


class Adds(torch.nn.Module):
    """Adds a number that it has as an attribute."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.value


class Branches(torch.nn.Module):
    """Branches on its values, so that its trace is rejected."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2
        return x - 1


# A line of the class below: it is written anew where the class is edited.
GATE = "        return self.linear(x) if x.sum() > 0 else -self.linear(x)\n"


class Gated(torch.nn.Module):
    """Has weights, and branches on its values."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) if x.sum() > 0 else -self.linear(x)


class Holds(torch.nn.Module):
    """Holds whatever it is given."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Locks(Holds):
    """Holds a lock."""

    def __init__(self) -> None:
        super().__init__(threading.Lock())


class ReturnsItsLength(torch.nn.Module):
    """Each length has a trace of its own, with the length baked in."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x + x.shape[1], x.shape[1]
