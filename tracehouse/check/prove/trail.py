"""The trail of a run of the graph: which operators ran, and which tensors each step took, made and returned."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from tracehouse.check.prove.operand_keys import CONVOLUTIONS, tensors_in
from tracehouse.check.prove.symbols import is_fake

# These operators may compute a number for each pair of positions, which no result of theirs shows: their own tensors
# of these sizes are so many. Counted where attention runs in one kernel; in a kernel that needs none, too.
_SCORES_AT_ONCE = 3
# At which place an operator takes the number of heads.
_HEADS_AT = {"_native_multi_head_attention": 4, "_transformer_encoder_layer_fwd": 2}
_ATTENTION = {
    *_HEADS_AT,
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_attention_math_for_mps",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_cudnn_attention",
    "scaled_dot_product_attention",
}
# oneDNN copies images for a convolution of float32 to a multiple of so many channels (its blocked layouts, nChw16c).
_CHANNELS_TOGETHER = 16


@dataclass(frozen=True)
class OperatorCall:
    """A call of an operator of torch on symbols: its arguments, which may be nested, and what it returned."""

    operator: torch._ops.OpOverload
    arguments: Mapping[str, Any]
    result: Any


@dataclass
class Trail:
    """What a run of the graph made, step by step, and the tensors that each step took and returned."""

    calls: list[OperatorCall] = field(default_factory=list)  # in their order
    draws: bool = False  # whether an operator drew random numbers
    steps: list[tuple[list[torch.Tensor], list[torch.Tensor]]] = field(default_factory=list)
    # By the number of the step: the results of operators that ran in it, and elements that no result shows.
    made: dict[int, list[torch.Tensor]] = field(default_factory=lambda: defaultdict(list))
    hidden: dict[int, list[tuple[Sequence[Any], int]]] = field(default_factory=lambda: defaultdict(list))

    def note_call(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """Note that an operator was called, with these arguments in the order of its schema and by name."""
        names = (argument.name for argument in operator._schema.arguments)
        self.calls.append(OperatorCall(operator, {**dict(zip(names, args, strict=False)), **kwargs}, result))

    def note_operator(self, name: str, args: Sequence[Any], result: Any) -> None:
        """Note what an operator of the present step made."""
        self.made[len(self.steps)] += tensors_in(result if isinstance(result, list | tuple) else [result])
        if name in _ATTENTION:
            query, key = args[0], args[0] if name in _HEADS_AT and _HEADS_AT[name] == 2 else args[1]
            heads = args[_HEADS_AT[name]] if name in _HEADS_AT else 1  # elsewhere they are a dim
            shape = [*query.shape[:-1], key.shape[-2], heads, _SCORES_AT_ONCE]
            self.hidden[len(self.steps)].append((shape, query.element_size()))
        if name in CONVOLUTIONS:
            self.hidden[len(self.steps)] += _hidden_by_convolution(args[0], args[1], result)

    def end_step(self, inputs: Sequence[Any], outputs: Any) -> None:
        """Note that a step ended."""
        self.steps.append((_fakes(inputs), _fakes(outputs)))


class UnkeptTrail(Trail):
    """The trail of a run of which nobody asks what it made."""

    def note_call(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        pass

    def note_operator(self, name: str, args: Sequence[Any], result: Any) -> None:
        pass

    def end_step(self, inputs: Sequence[Any], outputs: Any) -> None:
        pass


def _hidden_by_convolution(
    tensor: torch.Tensor, weight: torch.Tensor, result: torch.Tensor
) -> Iterator[tuple[Sequence[Any], int]]:
    """Yield the shapes and the bytes of an element of what a convolution copies, which no result of it shows.

    Of float32, that is the images with more channels; of other datatypes, and of other devices than the CPU, each
    position of the result with all that the kernel sees from there (`slow_conv2d` in torch).
    """
    for one in (tensor, result):
        yield [_round_up(one.shape[1]), one.shape[0], *one.shape[2:]], one.element_size()
    if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
        yield [result.shape[0], *result.shape[2:], tensor.shape[1], *weight.shape[2:]], tensor.element_size()


def _round_up(channels: Any) -> Any:
    return (channels + _CHANNELS_TOGETHER - 1) // _CHANNELS_TOGETHER * _CHANNELS_TOGETHER


def _fakes(values: Any) -> list[torch.Tensor]:
    return [
        tensor for tensor in tensors_in(values if isinstance(values, list | tuple) else [values]) if is_fake(tensor)
    ]
