"""Size operators: they take a size, or the end of a range, as a plain number.

On a symbol, torch would go on with the number that the symbol stands for now. So their results are worked out here.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import _refs

from tracehouse.check.prove.symbolic_layouts import suggests_channels_last
from tracehouse.check.prove.symbols import SYMBOLIC, is_fake

# The datatypes by their numbers in a graph (c10::ScalarType).
DTYPES = {0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16,
          6: torch.float32, 7: torch.float64, 11: torch.bool, 15: torch.bfloat16}  # fmt: skip

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@dataclass(frozen=True)
class SizeOperatorCall:
    """A call of a size operator, and the tensor that it returns. `name` is the operator's name on real tensors."""

    name: str
    operands: Sequence[Any]
    shape: Sequence[Any]
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True)
class DataRangeCall:
    """A call of `arange` from a number to a tensor's value. `run` returns its result for a number as the end.

    torch refuses a range that ends before it begins, so that the end is the start and a size that follows from values.
    """

    start: int
    end: torch.Tensor
    run: Callable[[Any], torch.Tensor]


@dataclass(frozen=True)
class UnpackCall:
    """A call that pads the rows of a packed sequence to a length again: the operands of `_pad_packed_sequence`."""

    operands: Sequence[Any]


_CALLS = (SizeOperatorCall, DataRangeCall, UnpackCall)
Record = Callable[[SizeOperatorCall | DataRangeCall | UnpackCall], Any]
# Returns the call, or its result where other operators of torch give it, or None where the operator itself does.
ReadCall = Callable[..., SizeOperatorCall | DataRangeCall | UnpackCall | torch.Tensor | None]


def run_node(kind: str, operands: Sequence[Any], record: Record) -> Any:
    """Return the result of a graph's node; None where torch itself gives the right one."""
    read = _BY_KIND.get(kind)
    if read is None or not _has_symbol_or_value(operands):
        return None
    call = read(*operands)
    return record(call) if isinstance(call, _CALLS) else call


@contextmanager
def record_size_operators(record: Record) -> Iterator[None]:
    """Within it, torch's functions for size operators return what `record` returns, if an operand is a symbol."""
    originals = [getattr(owner, name) for owner, name, _ in _FUNCTIONS]
    for (owner, name, read), function in zip(_FUNCTIONS, originals, strict=True):
        setattr(owner, name, _recording(record, function, read))
    try:
        yield
    finally:
        for (owner, name, _), function in zip(_FUNCTIONS, originals, strict=True):
            setattr(owner, name, function)


def _recording(record: Record, function: Callable[..., Any], read: ReadCall) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not _has_symbol_or_value([*args, *kwargs.values()]):
            return function(*args, **kwargs)
        try:
            call = read(*args, **kwargs)
        except TypeError:  # the arguments are wrong: torch raises its own error for them
            call = None
        if isinstance(call, _CALLS):
            return record(call)
        return function(*args, **kwargs) if call is None else call

    return run


def _read_arange(*bounds: Any, **options: Any) -> DataRangeCall | None:
    """Read a call that counts up by ones, from a whole number to the value of a tensor of integers."""
    if not options.keys() <= {"dtype", "device"}:
        return None
    match bounds:
        case [torch.Tensor() as end] if is_unread_integer(end):
            return DataRangeCall(0, end, lambda number: torch.arange(number, **options))
        case [int(start), torch.Tensor() as end] if is_unread_integer(end):
            return DataRangeCall(start, end, lambda number: torch.arange(start, number, **options))
    return None


def _read_arange_node(*operands: Any) -> DataRangeCall | None:
    *bounds, dtype, _, device, __ = operands
    if dtype is not None and dtype not in DTYPES:
        return None
    return _read_arange(*bounds, dtype=DTYPES.get(dtype), device=device)


def is_unread_integer(value: Any) -> bool:
    """Whether the value is a tensor of one integer, without dims, that is not known."""
    return is_fake(value) and value.dim() == 0 and value.dtype in _INTEGERS


def _read_linspace(
    start: Any,
    end: Any,
    steps: Any,
    dtype: torch.dtype | int | None = None,
    layout: Any = None,
    device: torch.device | str | None = None,
    pin_memory: Any = None,  # noqa: ARG001 - a node has this operand
) -> SizeOperatorCall | None:
    dtype = _read_dtype(dtype)
    are_numbers = all(isinstance(bound, int | float | torch.SymInt | torch.SymFloat) for bound in (start, end))
    if not are_numbers or not isinstance(dtype, torch.dtype) or layout not in (None, 0, torch.strided):
        return None
    if not isinstance(steps, int | torch.SymInt) or steps < 0:
        return None
    return SizeOperatorCall("linspace", (start, end, steps), [steps], dtype, torch.device(device or "cpu"))


def _make_scalar(
    data: Any, dtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> torch.Tensor | None:
    """Return the tensor without dims that torch makes of one number; None for other data, which a trace bakes in."""
    if not isinstance(data, torch.SymInt | torch.SymFloat):
        return None
    usual = torch.int64 if isinstance(data, torch.SymInt) else torch.get_default_dtype()
    made: torch.Tensor = torch.ops.aten.scalar_tensor.default(data, dtype=dtype or usual, device=device)
    return made


def _make_scalar_like(
    tensor: torch.Tensor, data: Any, dtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> torch.Tensor | None:
    return _make_scalar(data, dtype or tensor.dtype, device or tensor.device)


def _read_fftfreq(
    n: Any,
    d: Any = 1.0,
    dtype: torch.dtype | int | None = None,
    layout: Any = None,
    device: torch.device | str | None = None,
    pin_memory: Any = None,  # noqa: ARG001 - a node has this operand
) -> SizeOperatorCall | None:
    return _read_frequencies("fft_fftfreq", n, n, d, _read_dtype(dtype), layout, device)


def _read_rfftfreq(
    n: Any,
    d: Any = 1.0,
    dtype: torch.dtype | int | None = None,
    layout: Any = None,
    device: torch.device | str | None = None,
    pin_memory: Any = None,  # noqa: ARG001 - a node has this operand
) -> SizeOperatorCall | None:
    return _read_frequencies("fft_rfftfreq", n, n // 2 + 1, d, _read_dtype(dtype), layout, device)


def _read_frequencies(
    name: str, n: Any, count: Any, d: Any, dtype: Any, layout: Any, device: torch.device | str | None
) -> SizeOperatorCall | None:
    if not isinstance(n, torch.SymInt) or not isinstance(d, int | float) or not isinstance(dtype, torch.dtype):
        return None
    if layout not in (None, 0, torch.strided) or n < 1:
        return None
    return SizeOperatorCall(name, (n, float(d)), [count], dtype, torch.device(device or "cpu"))


def _read_dtype(dtype: torch.dtype | int | None) -> torch.dtype | None:
    """Return the datatype that a call or a node names, or the default one; None for a number that is not known."""
    if dtype is None:
        return torch.get_default_dtype()
    return DTYPES.get(dtype) if isinstance(dtype, int) else dtype


def _run_istft(*args: Any, **kwargs: Any) -> torch.Tensor:
    """Run the operators that torch's own Python code has for `istft`; that takes a symbol as the length."""
    signal: torch.Tensor = _refs.istft(*args, **kwargs)
    return signal


def _read_avg_pool2d(
    tensor: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: Any = False,
    count_include_pad: Any = True,
    divisor_override: Any = None,
) -> SizeOperatorCall | None:
    return _read_pool(
        "avg_pool2d", tensor, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _read_max_pool2d(
    tensor: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: Any = False,
) -> SizeOperatorCall | None:
    is_dense = all(spacing == 1 for spacing in _pair(dilation))
    # On real tensors, torch calls this operator, whose indices are left unused.
    name = "max_pool2d_with_indices"
    return _read_pool(name, tensor, kernel_size, stride, padding, ceil_mode) if is_dense else None


def _read_pool(
    name: str, tensor: torch.Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: Any, *others: Any
) -> SizeOperatorCall | None:
    """Read a call without padding and without `ceil_mode`: those have rules of their own for the last window."""
    kernels = _pair(kernel_size)
    strides = _pair(stride) or kernels
    if ceil_mode or any(_pair(padding)) or tensor.dim() not in (3, 4) or tensor.device.type != "cpu":
        return None
    if suggests_channels_last(tensor):  # the result would lie so too
        return None
    if any(size < 1 for size in (*kernels, *strides)) or any(
        length < kernel for length, kernel in zip(tensor.shape[-2:], kernels, strict=True)
    ):
        return None
    sizes = [
        (length - kernel) // step + 1 for length, kernel, step in zip(tensor.shape[-2:], kernels, strides, strict=True)
    ]
    operands = (tensor, [*kernels], [*strides], *others)
    return SizeOperatorCall(name, operands, [*tensor.shape[:-2], *sizes], tensor.dtype, tensor.device)


def _read_unpack(*operands: Any) -> UnpackCall:
    return UnpackCall(operands)


def _pair(value: Any) -> Sequence[Any]:
    """Return one number as two, a list as it is, and None as nothing."""
    if value is None:
        return ()
    numbers = [*value] if isinstance(value, list | tuple) else [value]
    return numbers * 2 if len(numbers) == 1 else numbers


def _has_symbol_or_value(operands: Sequence[Any]) -> bool:
    """Whether one of the operands is a symbol, or a tensor of one integer in its place."""
    return any(
        _has_symbol_or_value(operand)
        if isinstance(operand, list | tuple)
        else isinstance(operand, SYMBOLIC) or is_unread_integer(operand)
        for operand in operands
    )


_BY_KIND: dict[str, ReadCall] = {
    "aten::arange": _read_arange_node,
    "aten::linspace": _read_linspace,
    "aten::fft_fftfreq": _read_fftfreq,
    "aten::fft_rfftfreq": _read_rfftfreq,
    "aten::istft": _run_istft,
    "aten::avg_pool2d": _read_avg_pool2d,
    "aten::max_pool2d": _read_max_pool2d,
    "aten::_pad_packed_sequence": _read_unpack,
}
_FUNCTIONS: tuple[tuple[Any, str, ReadCall], ...] = (
    (torch, "arange", _read_arange),
    (torch, "tensor", _make_scalar),
    (torch, "as_tensor", _make_scalar),
    (torch.Tensor, "new_tensor", _make_scalar_like),
    (torch, "linspace", _read_linspace),
    (torch.fft, "fftfreq", _read_fftfreq),
    (torch.fft, "rfftfreq", _read_rfftfreq),
    (torch, "istft", _run_istft),
    (F, "avg_pool2d", _read_avg_pool2d),
    (torch, "max_pool2d", _read_max_pool2d),
    (torch._VF, "_pad_packed_sequence", _read_unpack),
)
