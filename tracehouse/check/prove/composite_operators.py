"""Composite operators: torch breaks them into others, step by step along a length, or by the layout of the operands.

Here each of them reaches the dispatch modes as the one operator that it is.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey

_aten = torch.ops.aten
_UPSAMPLING = (
    *(_aten.upsample_nearest1d, _aten.upsample_nearest2d, _aten.upsample_nearest3d),
    *(_aten._upsample_nearest_exact1d, _aten._upsample_nearest_exact2d, _aten._upsample_nearest_exact3d),
    *(_aten.upsample_linear1d, _aten.upsample_bilinear2d, _aten.upsample_trilinear3d, _aten.upsample_bicubic2d),
)
UPSAMPLING = tuple(operator.default for operator in _UPSAMPLING)
_COMPOSITE = (
    *(_aten.gru.input, _aten.lstm.input, _aten.rnn_tanh.input, _aten.rnn_relu.input, _aten.linear.default),
    *(_aten.gru.data, _aten.lstm.data, _aten.rnn_tanh.data, _aten.rnn_relu.data, _aten._pad_packed_sequence.default),
    *UPSAMPLING,
)


@contextmanager
def keep_composite_operators() -> Iterator[None]:
    """Within it, composite operators reach dispatch modes whole, if torch's Python dispatcher is enabled."""
    for operator, kernel in _KERNELS.items():
        operator.py_kernels[DispatchKey.AutogradCPU] = kernel
        operator._dispatch_cache.clear()
    try:
        yield
    finally:
        for operator in _KERNELS:
            operator.py_kernels.pop(DispatchKey.AutogradCPU, None)
            operator._dispatch_cache.clear()


def _below_autograd(operator: Any) -> Callable[..., Any]:
    """Return a kernel that skips autograd, where torch breaks the operator into others."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*args, **kwargs)

    return run


def _with_sizes(operator: Any) -> Callable[..., Any]:
    """Return a kernel for the overload that takes a list of scales.

    It calls the overload that takes sizes; torch itself breaks the operator into others on the way to that one.
    """

    def run(tensor: torch.Tensor, sizes: Sequence[int] | None, *others: Any) -> Any:
        *flags, scales = others
        if sizes is None:
            sizes = [torch.sym_int(size * scale) for size, scale in zip(tensor.shape[2:], scales, strict=True)]
        return operator(tensor, sizes, *flags, *(scales or ()))

    return run


def _max_pool1d(*args: Any, **kwargs: Any) -> torch.Tensor:
    """Pool as torch does for tensors that dispatch modes see; its own way there makes the sizes plain numbers first."""
    pooled: torch.Tensor = _aten.max_pool1d_with_indices(*args, **kwargs)[0]
    return pooled


_KERNELS = {
    **{operator: _below_autograd(operator) for operator in _COMPOSITE},
    **{operator.vec: _with_sizes(operator.default) for operator in _UPSAMPLING},
    _aten.max_pool1d.default: _max_pool1d,
}
