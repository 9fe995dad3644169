"""Sized operators: they take a size as a plain number, for which torch would keep the one that a symbol has now."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from tracehouse.check.prove.symbols import SYMBOLIC

# By the numbers that they have in a graph.
DTYPES = {0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16,
          6: torch.float32, 7: torch.float64, 11: torch.bool, 15: torch.bfloat16}  # fmt: skip


@dataclass(frozen=True)
class Sized:
    """What an operator makes of its operands. `name` is the one that it has in a graph."""

    name: str
    operands: Sequence[Any]
    shape: Sequence[Any]
    dtype: torch.dtype
    device: torch.device


def of_node(kind: str, operands: Sequence[Any]) -> Sized | None:
    """None where torch does it as well."""
    read = _BY_KIND.get(kind)
    return read(*operands) if read is not None and _has_symbol(operands) else None


@contextmanager
def recorded(record: Callable[[Sized], torch.Tensor]) -> Iterator[None]:
    """Within it torch's own functions give what `record` makes of them, where a size is among their operands."""
    before = [getattr(owner, name) for owner, name, _ in _FUNCTIONS]
    for (owner, name, read), function in zip(_FUNCTIONS, before, strict=True):
        setattr(owner, name, _given_to(record, function, read))
    try:
        yield
    finally:
        for (owner, name, _), function in zip(_FUNCTIONS, before, strict=True):
            setattr(owner, name, function)


def _given_to(
    record: Callable[[Sized], torch.Tensor], function: Callable[..., Any], read: Callable[..., Sized | None]
) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        if not _has_symbol([*args, *kwargs.values()]):
            return function(*args, **kwargs)
        try:
            found = read(*args, **kwargs)
        except TypeError:  # for torch to say
            found = None
        return function(*args, **kwargs) if found is None else record(found)

    return called


def _linspace(
    start: Any,
    end: Any,
    steps: Any,
    dtype: torch.dtype | int | None = None,
    layout: Any = None,
    device: torch.device | str | None = None,
    pin_memory: Any = None,  # noqa: ARG001 - as a node has it
) -> Sized | None:
    dtype = torch.get_default_dtype() if dtype is None else DTYPES.get(dtype) if isinstance(dtype, int) else dtype
    plain = all(isinstance(one, int | float | torch.SymInt | torch.SymFloat) for one in (start, end))
    if not plain or not isinstance(dtype, torch.dtype) or layout not in (None, 0, torch.strided):
        return None
    if not isinstance(steps, int | torch.SymInt) or steps < 0:
        return None
    return Sized("linspace", (start, end, steps), [steps], dtype, torch.device(device or "cpu"))


def _avg_pool2d(
    tensor: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: Any = False,
    count_include_pad: Any = True,
    divisor_override: Any = None,
) -> Sized | None:
    """Without edges, of which there are rules of their own."""
    sizes = _each(kernel_size)
    steps = _each(stride) or sizes
    if ceil_mode or any(_each(padding)) or tensor.dim() not in (3, 4) or tensor.device.type != "cpu":
        return None
    if any(size < 1 for size in (*sizes, *steps)) or any(
        whole < size for whole, size in zip(tensor.shape[-2:], sizes, strict=True)
    ):
        return None
    made = [(whole - size) // step + 1 for whole, size, step in zip(tensor.shape[-2:], sizes, steps, strict=True)]
    operands = (tensor, [*sizes], [*steps], count_include_pad, divisor_override)
    return Sized("avg_pool2d", operands, [*tensor.shape[:-2], *made], tensor.dtype, tensor.device)


def _each(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    many = [*value] if isinstance(value, list | tuple) else [value]
    return many * 2 if len(many) == 1 else many


def _has_symbol(operands: Sequence[Any]) -> bool:
    return any(
        _has_symbol(operand) if isinstance(operand, list | tuple) else isinstance(operand, SYMBOLIC)
        for operand in operands
    )


_BY_KIND: dict[str, Callable[..., Sized | None]] = {"aten::linspace": _linspace, "aten::avg_pool2d": _avg_pool2d}
_FUNCTIONS: tuple[tuple[Any, str, Callable[..., Sized | None]], ...] = (
    (torch, "linspace", _linspace),
    (F, "avg_pool2d", _avg_pool2d),
)
