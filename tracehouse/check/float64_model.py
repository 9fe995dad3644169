"""The float64 model: it answers a call as if every number in the eager model had float64's digits.

Parameters, buffers and inputs are cast in a copy. A dispatch mode casts what the model makes or casts by itself, such
as `x.float()` in a norm: otherwise the answer would keep float32's rounding there.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from tracehouse.byte_units import MIB
from tracehouse.check.calls import CallResult, call_model
from tracehouse.check.memory_plan import FLOAT64_MAX_BYTES
from tracehouse.check.time_limit import TooSlow
from tracehouse.eager.call import Call
from tracehouse.eager.copies import copy_model
from tracehouse.eager.error_translation import reports_no_memory
from tracehouse.eager.shared_state import SharedState
from tracehouse.errors import ModelRaised, ServiceError
from tracehouse.introspection import user_lines

_DOUBLE = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
    torch.complex32: torch.complex128, torch.complex64: torch.complex128,
}  # fmt: skip


class Float64Model:
    """Answers each call with a new copy of `module`, so that no call changes anything.

    The first call that fails says why the model cannot run in float64, and no other is tried.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._lacking: str | None = None

    def outputs(self, call: Call, seed: int, *, within_s: float) -> Any | str:
        """Return the outputs of the call in float64, or a text that says why there are none."""
        try:
            return self.answer(call, seed, within_s=within_s).outputs
        except ModelRaised as error:
            return error.detail

    def answer(self, call: Call, seed: int, *, within_s: float | None) -> CallResult:
        """Return the answer in float64. What the source's globals hold is put back afterwards.

        Raises ModelRaised, which says why there is none.
        """
        if self._lacking is None:
            shared = SharedState()
            try:
                return self._call(call, seed, within_s)
            except TooSlow:
                self._lacking = f"it takes longer than {within_s:.3g} s"
            except Exception as error:  # submitted code: it cannot be copied, or cast
                if reports_no_memory(error):  # a smaller call may have it
                    raise ModelRaised("there is no memory for it", method=call.method) from error
                self._lacking = error.detail if isinstance(error, ServiceError) else _describe(error)
            finally:
                shared.restore()
        raise ModelRaised(self._lacking, method=call.method)

    def _call(self, call: Call, seed: int, within_s: float | None) -> CallResult:
        """Raises whatever the copy and the model raise, and TooSlow."""
        tensors = [*self._module.parameters(), *self._module.buffers()]
        if (byte_size := sum(8 * tensor.numel() for tensor in tensors)) > FLOAT64_MAX_BYTES:
            raise ModelRaised(f"it would have {byte_size // MIB} MiB, and may have {FLOAT64_MAX_BYTES // MIB}")
        copied = _cast(copy_model(self._module, cast=_cast_anew))
        precise = call.changed(to_double)
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with _CastsToFloat64():  # autocast leaves float64 alone
                torch.zeros(1).add(1)  # the first operator in a dispatch mode imports torch._dynamo: it takes seconds
                return call_model(copied, precise, seed, within_s=within_s)
        finally:
            torch.set_default_dtype(default)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {user_lines.public_error_text(error)}"


def _cast(module: torch.nn.Module) -> torch.nn.Module:
    """Cast parameters and buffers, and the tensors that are plain attributes, which `double` leaves as they are."""
    with warnings.catch_warnings():
        # Copies of a compiled module's parameters are results of an operator, and torch looks for their gradients.
        warnings.filterwarnings("ignore", message=r"The \.grad attribute of a Tensor that is not a leaf")
        module.double()
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                part.__dict__[name] = to_double(value)
    return module


def to_double(tensor: torch.Tensor) -> torch.Tensor:
    """Return a float or complex tensor in twice float32's digits, and any other as it is."""
    return tensor.to(_DOUBLE.get(tensor.dtype, tensor.dtype))


def _cast_anew(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(_DOUBLE.get(tensor.dtype, tensor.dtype), copy=True)


class _CastsToFloat64(TorchDispatchMode):
    """Replaces the smaller float dtypes, wherever an operator is given one, by float64."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map_only(torch.dtype, lambda dtype: _DOUBLE.get(dtype, dtype), (args, kwargs or {}))
        return func(*args, **kwargs)
