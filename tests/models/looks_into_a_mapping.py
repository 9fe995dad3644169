"""It looks up a name in a mapping of its own, which inherits `in` from the class that os.environ inherits it from."""

from collections.abc import Iterator, Mapping

import torch


class Functions(Mapping):
    def __init__(self) -> None:
        self._functions = {"relu": torch.relu}

    def __getitem__(self, name: str):
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)


FUNCTIONS = Functions()


class Net(torch.nn.Module):
    def forward(self, x):
        return FUNCTIONS["relu"](x) if "relu" in FUNCTIONS else x
