"""Integer widths: whether a run would go otherwise if its inputs of INT64 were INT32 with the same values.

Embeddings, comparisons and casts to floats give the same for both. Where a run sees its inputs through such operators
alone, and nobody asks for a datatype, its answers do not depend on the width, and no run with the other one is needed.
Arithmetic may overflow in one width only, and a function of torch may ask for the datatype and call no operator. So
whatever is not listed here, operators and functions, tells widths apart.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch
from torch import overrides
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _pop_mode_temporarily

from tracehouse.check.instrumentation.ambient_reads import set_attribute
from tracehouse.check.prove.operand_keys import Operands, is_written, tensors_in
from tracehouse.check.prove.symbols import is_fake

_INT32 = torch.iinfo(torch.int32)
WIDE = (torch.int32, torch.int64)
# The result has the values of the operand, whichever width it has.
_KEEPS = set(
    "view _unsafe_view reshape _reshape_alias expand slice select unsqueeze squeeze transpose permute t alias detach "
    "clone contiguous as_strided unbind split split_with_sizes chunk flip roll cat stack index_select repeat "
    "max min amax amin".split()
)
# The same where no number is given that the narrow width cannot hold.
_KEEPS_WITH_NUMBERS = set("clamp clamp_min clamp_max masked_fill constant_pad_nd full_like new_full".split())
# The result has the datatype of the operand, unless one is given.
_MAKES = set("zeros_like ones_like new_zeros new_ones full_like new_full".split())
# The result has a datatype of its own, and the same values for both widths. A sum of integers is INT64 always.
_SAME = set(
    "logical_not logical_and logical_or logical_xor any all argmax argmin sum cumsum _local_scalar_dense "
    "is_nonzero".split()
)
# They take integers that say which elements are taken. Of these, the width does not matter.
_TAKES = {"embedding", "index", "index_select"}
_COMPARISONS = set("eq ne lt le gt ge".split())
_ARITHMETIC = set("add sub rsub mul div".split())  # of floats it is exact for both: torch converts integers first
_REFLECTED = "radd rsub rmul truediv rtruediv iadd isub imul itruediv".split()
_WRITES = set("add_ sub_ mul_ div_ copy_".split())  # into a tensor of floats
# Functions and methods of torch that do not ask for a datatype, beside those that are called as an operator is. What
# they call is followed. `to` and `type_as` ask each tensor but their first operand.
_CASTS = ("to", "type_as")
_FUNCTIONS = {
    *_KEEPS, *_KEEPS_WITH_NUMBERS, *_MAKES, *_TAKES, *_SAME, *_COMPARISONS, *_ARITHMETIC, *_CASTS, *_WRITES,
    *(f"__{name}__" for name in (*_COMPARISONS, *_ARITHMETIC, *_REFLECTED)),
    *"not_equal less less_equal greater greater_equal subtract multiply divide true_divide concat concatenate".split(),
    *"float double half bfloat16 bool int long cpu item __int__ __float__ __bool__ __index__ __len__ __iter__".split(),
    *"__getitem__ flatten unflatten ravel movedim swapaxes narrow expand_as view_as reshape_as broadcast_to".split(),
    *"size dim ndimension numel nelement stride storage_offset is_contiguous get_device __hash__".split(),
    *"pad is_floating_point is_complex is_signed is_conj is_neg is_inference".split(),
    *"shape ndim device layout requires_grad is_leaf grad_fn is_cpu is_cuda is_meta is_nested is_quantized".split(),
    *"is_sparse is_mkldnn is_mps is_xla is_xpu T mT".split(),
}  # fmt: skip
# Attributes and methods of a tensor that follow from its datatype, besides operators that a dispatch mode sees.
_ASKING = ("dtype", "data", "itemsize", "nbytes")
_METHODS = (
    "element_size", "type", "new", "new_tensor", "storage", "untyped_storage", "__reduce_ex__", "__array__", "__repr__",
    "__format__",
)  # fmt: skip
_METHODS_OF_OTHERS = ("to", "type_as")  # they ask the tensor that they are given for its datatype
# The same in graphs. `aten::to` asks only a tensor that is not its first operand.
_ASKING_NODES = {"prim::dtype", "aten::element_size", "aten::type_as", "aten::result_type", "aten::can_cast"}


class IntegerWidths:
    """Follows the inputs of integers through one run; `are_told` is whether the run may tell INT32 from INT64."""

    def __init__(self, is_known: Callable[[torch.Tensor], bool]) -> None:
        """`is_known` is whether an operator that was followed has made a tensor without values."""
        self.are_told = False
        self._is_known = is_known
        self._followed: set[int] = set()  # by id: the tensors that have the width of an input; the run keeps them alive
        self._is_inside = False  # whether torch asks, within an operator

    def note_input(self, tensor: torch.Tensor) -> None:
        """Follow an input of the run, if it has integers."""
        if tensor.dtype in WIDE:
            self._followed.add(id(tensor))

    def tell(self, value: Any) -> None:
        """Take note that something may tell widths apart, if there is a followed tensor in the value."""
        self.are_told |= self._followed != set() and self._has_followed(value)

    def tell_all(self) -> None:
        """Take note that something may tell widths apart, and gets what is not looked into."""
        self.are_told |= self._followed != set()

    def follow(self, func: Any, operands: Operands, result: Any) -> None:
        """Follow a call of an operator to its result."""
        if self.are_told or not self._followed:
            return
        name = func._schema.name.removeprefix("aten::")
        values = [value for _, value in operands]
        if not self._has_followed(values):
            return
        has_datatype = any(isinstance(value, torch.dtype) for value in values)
        if name in _MAKES and has_datatype:
            return
        if name == "_to_copy":
            if result.dtype in WIDE:
                self._followed.add(id(result))
        elif not has_datatype and self._keeps(name, operands, values):
            self._followed.update(map(id, tensors_in(result)))
        elif has_datatype or not self._gives_the_same(name, operands, values, result):
            self.are_told = True  # `view` with a datatype takes the bits, and `sum` with one may overflow

    def follow_function(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Take note of a call of a function of torch that may ask for a datatype."""
        if self.are_told or self._is_inside:
            return
        name = _name_of(function)
        if name not in _FUNCTIONS:
            self.tell([*args, *kwargs.values()])
        elif name in _CASTS:
            self.tell([*args[1:], *kwargs.values()])

    def follow_node(self, kind: str, operands: Sequence[Any]) -> None:
        """Take note that a graph's node asks for a datatype."""
        if kind in _ASKING_NODES:
            self.tell(operands)
        elif kind == "aten::to":
            self.tell(operands[1:])

    @contextmanager
    def inside(self) -> Iterator[None]:
        """In the body torch runs an operator. It may ask for datatypes: `follow` says what comes of that."""
        before, self._is_inside = self._is_inside, True
        try:
            with torch._C.DisableTorchFunction():
                yield
        finally:
            self._is_inside = before

    @contextmanager
    def watch(self) -> Iterator[None]:
        """In the body, note where code in Python asks a followed tensor for its datatype."""
        with ExitStack() as stack:
            if self._followed:
                for name in _ASKING:
                    attribute = property(self._asking(getattr(torch.Tensor, name).__get__))
                    stack.enter_context(set_attribute(torch.Tensor, name, attribute))
                for name in _METHODS:
                    method = self._asking(getattr(torch.Tensor, name))
                    stack.enter_context(set_attribute(torch.Tensor, name, method))
                for name in _METHODS_OF_OTHERS:
                    method = self._asking_others(getattr(torch.Tensor, name))
                    stack.enter_context(set_attribute(torch.Tensor, name, method))
                stack.enter_context(_FunctionCalls(self))
                asks = _ask_without_mode(overrides.has_torch_function)
                stack.enter_context(set_attribute(overrides, "has_torch_function", asks))
            yield

    def _keeps(self, name: str, operands: Operands, values: Sequence[Any]) -> bool:
        """Whether the result has the values of a followed operand, and may have its width."""
        if any(is_written(argument) for argument, _ in operands):
            return False
        if name == "index_select":
            return not self._has_followed(values[2])
        if name == "index":
            return self._has_followed(values[0])
        if name in _KEEPS_WITH_NUMBERS:
            return all(map(_is_of_both_widths, values))
        return name in _KEEPS or name in _MAKES

    def _gives_the_same(self, name: str, operands: Operands, values: Sequence[Any], result: Any) -> bool:
        if name in _WRITES:
            return bool(values[0].is_floating_point()) and not self._has_followed(values[0])
        if any(is_written(argument) for argument, _ in operands):
            return False
        if name in _ARITHMETIC:
            return bool(result.is_floating_point())
        if name in _COMPARISONS:
            return all(map(_is_of_both_widths, values))
        if name in _TAKES:
            return not self._has_followed(values[0])
        return name in _SAME

    def _has_followed(self, value: Any) -> bool:
        """Whether there is a tensor in the value that has the width of an input, or may have it."""
        if isinstance(value, torch.Tensor):
            return id(value) in self._followed or not self._is_of_model(value)
        if isinstance(value, dict):
            value = [*value.values()]
        return isinstance(value, list | tuple) and any(map(self._has_followed, value))

    def _is_of_model(self, tensor: torch.Tensor) -> bool:
        """Whether the model holds the tensor, or operators made it that were followed: torch.vmap wraps tensors."""
        if is_fake(tensor):
            return self._is_known(tensor)
        return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)

    def _asking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)  # torch hands this function to modes in the place of its own
        def ask(*args: Any, **kwargs: Any) -> Any:
            if not self._is_inside:
                self.tell([*args, *kwargs.values()])
            return original(*args, **kwargs)

        return ask

    def _asking_others(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def ask(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            self.tell([*args, *kwargs.values()])
            return original(tensor, *args, **kwargs)

        return ask


class _FunctionCalls(TorchFunctionMode):
    """Sees each call of a function of torch, also of one that the model's code took out of torch before the run."""

    def __init__(self, widths: IntegerWidths) -> None:
        super().__init__()
        self._widths = widths

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._widths.follow_function(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def _ask_without_mode(original: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a function that answers whether tensors have functions of their own; where they do, torch's layers go
    another way, and so they would in a mode of ours."""

    def ask(tensors: Any) -> bool:
        if not isinstance(_get_current_function_mode(), _FunctionCalls):
            return original(tensors)
        with _pop_mode_temporarily():
            return original(tensors)

    return ask


def _name_of(function: Any) -> str | None:
    """Return the name of a function or an attribute of torch's; None for an operator called by itself."""
    if isinstance(function, OpOverload | OpOverloadPacket):
        return None
    name = getattr(function, "__name__", None)
    return getattr(function.__self__, "__name__", None) if name == "__get__" else name


def _is_of_both_widths(value: Any) -> bool:
    """Whether what is compared does not become another number in the narrow width, as one that it cannot hold would.

    torch converts numbers and integers without dims to the datatype of the tensor beside them. A symbol is a size, or
    may be large.
    """
    if isinstance(value, torch.Tensor):
        return value.dim() > 0 or value.is_floating_point()
    if isinstance(value, torch.SymInt):
        return bool(value.node.expr.is_Symbol)
    return not isinstance(value, int) or _INT32.min <= value <= _INT32.max
