"""The backward pass: gradients of a call's outputs by its floating-point inputs and the parameters.

The eager and the artifact process each compute them. A gradient is that of one number, so the outputs are summed with
random weights (a vector-Jacobian product with a random vector), the same in both processes. In a plain sum, opposite
errors of the same size would cancel.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

# torch 2.7 imports this only at the first backward pass, when the jail no longer lets it read files.
import torch.fx.experimental.symbolic_shapes

from tracehouse.errors import AnswerTooLarge
from tracehouse.tensors.gradient_names import GRADIENT_PREFIX
from tracehouse.tensors.tensor import Tensor
from tracehouse.torch_values import returned
from tracehouse.torch_values.tensors import datatype_of, pack

Named = dict[str, torch.Tensor]
_Place = tuple[Any, ...]  # a place in memory: address, dtype, shape and strides


@dataclass(frozen=True)
class Gradients:
    """The outputs and the gradients as named tensors. `without` has the names of gradients that autograd did not give.

    A gradient has the shape and the datatype of its input or parameter.
    """

    tensors: list[Tensor]
    without: list[str]

    @property
    def byte_size(self) -> int:
        """The number of bytes of all tensors together."""
        return sum(len(tensor.data) for tensor in self.tensors)


def differentiate(
    run: Callable[[Named], Any], inputs: Mapping[str, torch.Tensor], module: torch.nn.Module, seed: int, *, most: int
) -> Gradients:
    """Call `run` on the inputs and return its outputs and the gradients of their weighted sum.

    `seed` decides the weights. Raises AnswerTooLarge if inputs and parameters, or outputs and gradients, have more than
    `most` bytes, and whatever the call and the backward pass raise.
    """
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in inputs.items() if tensor.is_floating_point()}
    parameters = dict(module.named_parameters(remove_duplicate=False))
    _check_size([*leaves.values(), *parameters.values()], most)
    with torch.enable_grad():
        # The call may write into its inputs, which autograd forbids for leaves: it gets copies of them.
        copies = {name: leaves[name].clone() if name in leaves else tensor for name, tensor in inputs.items()}
        outputs = returned.tensors(run(copies))
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
    """Return the sources' gradients by the sources' identities; a source may have none."""
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
    """Return weights for every floating-point output, even one without a history, so that both processes draw alike."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(tensor.shape, generator=generator, dtype=torch.float32, device="cpu").to(tensor)
        for name, tensor in sorted(outputs.items())
        if tensor.is_floating_point()
    }


def _sum_shared(
    parameters: Mapping[str, torch.Tensor], found: Mapping[int, torch.Tensor]
) -> dict[str, torch.Tensor | None]:
    """Return each parameter's gradient, summed over the parameters in the same memory.

    A parameter with two names is one tensor in Python, and may be two tensors in the same memory in an archive.
    """
    there: dict[_Place, dict[int, torch.Tensor]] = {}
    for parameter in parameters.values():
        there.setdefault(_memory_of(parameter), {})[id(parameter)] = parameter
    summed: dict[_Place, torch.Tensor | None] = {}
    for place, together in there.items():
        gradients = [found[identity] for identity in together if identity in found]
        summed[place] = torch.stack(gradients).sum(0) if len(gradients) > 1 else next(iter(gradients), None)
    return {name: summed[_memory_of(parameter)] for name, parameter in parameters.items()}


def _memory_of(tensor: torch.Tensor) -> _Place:
    """Return where a tensor lies in memory; an empty one has no memory, and is its own place."""
    return (tensor.data_ptr() or id(tensor), tensor.dtype, tuple(tensor.shape), tensor.stride())


def _check_size(tensors: Iterable[torch.Tensor], most: int) -> None:
    byte_size = sum(tensor.nbytes for tensor in tensors)
    if byte_size > most:
        raise _too_large(byte_size, most)


def _too_large(byte_size: int, most: int) -> AnswerTooLarge:
    return AnswerTooLarge(f"the gradients have {byte_size} bytes, and at most {most} are allowed", limit=most)
