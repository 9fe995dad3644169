"""The backward pass: what a call returned, and the way back from it to its floating-point inputs and the parameters.

Either side of a verification does this, each in a process of its own. What is returned is weighted by numbers that both
draw alike: a plain sum would let errors cancel that are as large in one place as in another.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

# torch 2.7 imports it only at the first way back, and in the jail no file can be read.
import torch.fx.experimental.symbolic_shapes

from tracehouse.errors import AnswerTooLarge
from tracehouse.tensors.gradient_names import GRADIENT_PREFIX
from tracehouse.tensors.tensor import Tensor
from tracehouse.torch_values import structure
from tracehouse.torch_values.tensors import datatype_of, pack

Named = dict[str, torch.Tensor]
_Place = tuple[Any, ...]  # in memory


@dataclass(frozen=True)
class Gradients:
    """The outputs under their names and the gradients under theirs; `without` could have one, and have none."""

    tensors: list[Tensor]
    without: list[str]

    @property
    def byte_size(self) -> int:
        return sum(len(tensor.data) for tensor in self.tensors)


def differentiate(
    run: Callable[[Named], Any], inputs: Mapping[str, torch.Tensor], module: torch.nn.Module, seed: int, *, most: int
) -> Gradients:
    """Raises AnswerTooLarge over so many bytes, and whatever the call and the way back raise."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in inputs.items() if tensor.is_floating_point()}
    parameters = dict(module.named_parameters(remove_duplicate=False))
    _check_size([*leaves.values(), *parameters.values()], most)
    with torch.enable_grad():
        # The call may write into its inputs, as autograd forbids with those that it goes back to.
        returned = run({name: leaves[name].clone() if name in leaves else tensor for name, tensor in inputs.items()})
        outputs = structure.tensors(returned, "output")
        found = _backward(outputs, [*leaves.values(), *parameters.values()], seed)
    named = {f"{GRADIENT_PREFIX}input.{name}": found.get(id(leaf)) for name, leaf in leaves.items()}
    named |= {
        f"{GRADIENT_PREFIX}parameter.{name}": gradient for name, gradient in _sum_shared(parameters, found).items()
    }
    given = {name: gradient for name, gradient in named.items() if gradient is not None}
    comparable = {name: tensor for name, tensor in outputs.items() if datatype_of(tensor) is not None}
    gradients = Gradients(pack(comparable | given), [name for name, gradient in named.items() if gradient is None])
    if gradients.byte_size > most:
        raise _too_large(gradients.byte_size, most)
    return gradients


def _backward(outputs: Named, sources: Iterable[torch.Tensor], seed: int) -> dict[int, torch.Tensor]:
    """The gradients of those that have one, by their identities."""
    weights = _weights(outputs, seed)
    reached = [name for name in weights if outputs[name].requires_grad]
    wanted = list({id(source): source for source in sources if source.requires_grad}.values())
    if not reached or not wanted:
        return {}
    gradients: Sequence[torch.Tensor | None] = torch.autograd.grad(
        [outputs[name] for name in reached], wanted, [weights[name] for name in reached], allow_unused=True
    )
    return {
        id(source): gradient if gradient.layout is torch.strided else gradient.to_dense()
        for source, gradient in zip(wanted, gradients, strict=True)
        if gradient is not None
    }


def _weights(outputs: Named, seed: int) -> Named:
    """For every output that could have a history, whether it has one or not: both sides are to draw alike."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(tensor.shape, generator=generator, dtype=torch.float32, device="cpu").to(tensor)
        for name, tensor in sorted(outputs.items())
        if tensor.is_floating_point()
    }


def _sum_shared(
    parameters: Mapping[str, torch.Tensor], found: Mapping[int, torch.Tensor]
) -> dict[str, torch.Tensor | None]:
    """A parameter that has two names is one in Python, and may be two in an archive, in the same memory: their sum."""
    there: dict[_Place, dict[int, torch.Tensor]] = {}
    for parameter in parameters.values():
        there.setdefault(_memory_of(parameter), {})[id(parameter)] = parameter
    summed: dict[_Place, torch.Tensor | None] = {}
    for place, together in there.items():
        gradients = [found[identity] for identity in together if identity in found]
        summed[place] = torch.stack(gradients).sum(0) if len(gradients) > 1 else next(iter(gradients), None)
    return {name: summed[_memory_of(parameter)] for name, parameter in parameters.items()}


def _memory_of(tensor: torch.Tensor) -> _Place:
    """What is empty has no memory to share."""
    return (tensor.data_ptr() or id(tensor), tensor.dtype, tuple(tensor.shape), tensor.stride())


def _check_size(tensors: Iterable[torch.Tensor], most: int) -> None:
    byte_size = sum(tensor.nbytes for tensor in tensors)
    if byte_size > most:
        raise _too_large(byte_size, most)


def _too_large(byte_size: int, most: int) -> AnswerTooLarge:
    return AnswerTooLarge(f"the gradients have {byte_size} bytes, and may have {most}", limit=most)
