"""Integer widths: whether a run would go otherwise if its inputs of INT64 were INT32 with the same values.

Embeddings, comparisons and casts to floats give the same for both. Where a run sees its inputs through such operators
alone, and nobody asks for a datatype, its answers do not depend on the width, and no run with the other one is needed.
Arithmetic may overflow in one width only, so whatever is not listed here tells them apart.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from tracehouse.check.instrumentation.ambient_reads import set_attribute
from tracehouse.check.prove.operand_keys import Operands, tensors_in

_INT32 = torch.iinfo(torch.int32)
WIDE = (torch.int32, torch.int64)
# The result has the values of the operand, whichever width it has.
_KEEPS = set(
    "view _unsafe_view reshape _reshape_alias expand slice select unsqueeze squeeze transpose permute t alias detach "
    "clone contiguous as_strided unbind split split_with_sizes chunk flip roll cat stack index_select repeat".split()
)
# The result has a datatype of its own, and the same values for both widths. A sum of integers is INT64 always.
_SAME = set(
    "embedding logical_not logical_and logical_or logical_xor any all argmax argmin sum cumsum _local_scalar_dense "
    "is_nonzero".split()
)
_COMPARISONS = set("eq ne lt le gt ge".split())
_ARITHMETIC = set("add sub rsub mul div".split())  # of floats it is exact for both: torch converts integers first
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

    def __init__(self) -> None:
        self.are_told = False
        self._followed: set[int] = set()  # by id: the tensors that have the width of an input; the run keeps them alive
        self._is_inside = False  # whether torch asks, within an operator

    def note_input(self, tensor: torch.Tensor) -> None:
        """Follow an input of the run, if it has integers."""
        if tensor.dtype in WIDE:
            self._followed.add(id(tensor))

    def tell(self, value: Any) -> None:
        """Take note that something may tell widths apart, if there is a followed tensor in the value."""
        self.are_told |= self._followed != set() and self._has_followed(value)

    def follow(self, name: str, operands: Operands, result: Any) -> None:
        """Follow a call of an operator to its result."""
        if self.are_told or not self._followed:
            return
        values = [value for _, value in operands]
        if not self._has_followed(values):
            return
        if name in _KEEPS and any(isinstance(value, torch.dtype) for value in values):
            self.are_told = True  # `view` with a datatype shows the bytes
        elif name in _KEEPS or (name == "_to_copy" and result.dtype in WIDE):
            self._keep(name, values, result)
        elif not (name == "_to_copy" or self._gives_the_same(name, operands, values, result)):
            self.are_told = True

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
                stack.enter_context(set_attribute(torch, "result_type", self._asking(torch.result_type)))
            yield

    def _keep(self, name: str, values: Sequence[Any], result: Any) -> None:
        if name == "index_select" and self._has_followed(values[2]):
            self.are_told = True  # which of both is followed is not looked into
            return
        self._followed.update(map(id, tensors_in(result)))

    def _gives_the_same(self, name: str, operands: Operands, values: Sequence[Any], result: Any) -> bool:
        if name in _ARITHMETIC:
            return bool(result.is_floating_point())
        if name in _COMPARISONS:
            return all(map(_is_of_both_widths, values))
        if name in ("sum", "cumsum"):
            return all(value is None for argument, value in operands if argument.name == "dtype")
        if name == "embedding":
            return not self._has_followed(values[0])
        return name in _SAME

    def _has_followed(self, value: Any) -> bool:
        if isinstance(value, torch.Tensor):
            return id(value) in self._followed
        return isinstance(value, list | tuple) and any(map(self._has_followed, value))

    def _asking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: Any, **kwargs: Any) -> Any:
            if not self._is_inside:
                self.tell([*args, *kwargs.values()])
            return original(*args, **kwargs)

        return ask

    def _asking_others(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def ask(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            self.tell([*args, *kwargs.values()])
            return original(tensor, *args, **kwargs)

        return ask


def _is_of_both_widths(value: Any) -> bool:
    """Whether what is compared does not become another number in the narrow width, as one that it cannot hold would.

    torch converts numbers and integers without dims to the datatype of the tensor beside them. Symbols are sizes.
    """
    if isinstance(value, torch.Tensor):
        return value.dim() > 0 or value.is_floating_point()
    return not isinstance(value, int) or _INT32.min <= value <= _INT32.max
