"""The path of a call: the operators that it runs and the values that it reads, in their order."""

from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.utils._python_dispatch import TorchDispatchMode

from tracehouse.check.prove.composite_operators import whole
from tracehouse.check.prove.recorder import Read, Unprovable, of_frame
from tracehouse.eager.call import Call
from tracehouse.eager.source import seed_all
from tracehouse.introspection import user_lines

_READS = {"_local_scalar_dense", "equal"}
# What only shows a tensor otherwise, or that tensors without values do otherwise.
_UNTOLD = set(
    "detach alias lift lift_fresh detach_ lift_fresh_copy device slice view _unsafe_view expand clone _to_copy reshape "
    "_reshape_alias contiguous is_nonzero transpose t permute squeeze unsqueeze select as_strided copy_ "
    "_local_scalar_dense equal sym_size sym_stride sym_numel sym_storage_offset is_contiguous".split()
)
_ONE_NAME = {
    "_convolution": "convolution",
    "mkldnn_convolution": "convolution",
    "convolution_overrideable": "convolution",
}


@dataclass(frozen=True)
class Path:
    operators: list[str]
    reads: list[Read]


def told(operators: list[str]) -> list[str]:
    """Without what only shows a tensor otherwise."""
    return [_ONE_NAME.get(name, name) for name in operators if name not in _UNTOLD]


def path_of(module: torch.nn.Module, call: Call, seed: int) -> Path:
    """Of a call of real tensors. Raises whatever the model raises."""
    cloned = call.cloned()
    seed_all(seed)
    watch = _Watch()
    with torch.no_grad(), enable_python_dispatcher(), whole(), watch:
        cloned.run(module)
    return Path(watch.operators, watch.reads)


class Replay:
    """Gives again what was read at a line, where that is harmless."""

    def __init__(self, path: Path, harmless: Collection[user_lines.Line]) -> None:
        self._harmless = harmless
        self._left: dict[user_lines.Line | None, deque[Any]] = defaultdict(deque)
        for read in path.reads:
            self._left[read.line].append(read.value)

    def __call__(self, line: user_lines.Line | None, known: Any) -> Any:
        left = self._left[line]
        value = left.popleft() if left else None
        if known is not None:
            return known
        if line not in self._harmless:
            raise Unprovable("the model reads a value that depends on its inputs", line)
        if value is None:
            raise Unprovable("the model reads a value that it does not read of real tensors", line)
        return value


class _Watch(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[str] = []
        self.reads: list[Read] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.rpartition("::")[2]
        result = func(*args, **(kwargs or {}))
        if name in _READS:
            self.reads.append(Read(of_frame(), result))
        elif name not in _UNTOLD:
            self.operators.append(name)
        return result
