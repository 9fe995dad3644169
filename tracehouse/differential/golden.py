"""Golden cases: a few inputs with the eager outputs, stored with the artifact and replayed wherever it is loaded.

They are one safetensors file. Its tensors are called `<case>.<method>.input.<leaf>` or `<case>.<method>.output.<leaf>`,
with the leaf's name in the contract: `0.forward.input.x`, `0.forward.output.output.1`. If random numbers are drawn,
`<case>.<method>.seed.` is the seed of torch's generators.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import safetensors

from tracehouse.tensors import tensor_file
from tracehouse.tensors.tensor import Datatype, Tensor

# torch's profiling executor records the first call, and compiles for what it saw at the second and third. That compiled
# code answers all later calls, so it has to be compared as well.
CALLS_TO_SPECIALISE = 3
SEED_MAX = 2**63 - 1
# Where a golden case is replayed, its outputs may be so many times the tolerance apart. The bytes of inputs and weights
# lie elsewhere in memory there, or the machine is another one: the operators round otherwise, and a model may carry one
# rounding into a hundred, as the step of a diffusion does that divides by 0.006. Chosen.
_REPLAY_ROOM = 10.0
_SEED = "seed"


@dataclass(frozen=True)
class GoldenCase:
    """A call's inputs and the eager model's outputs; each tensor has its name in the contract.

    `seed` seeds torch's generators before the call; None if no random numbers are drawn.
    """

    method: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    seed: int | None = None

    @property
    def byte_size(self) -> int:
        """The number of bytes of all inputs and outputs."""
        return sum(len(tensor.data) for tensor in (*self.inputs, *self.outputs))


def replay_tolerance(tolerance: float) -> float:
    """Return the relative tolerance of replayed golden cases, given that of the check."""
    return _REPLAY_ROOM * tolerance


def encode(cases: Iterable[GoldenCase]) -> bytes:
    """Return the cases as the bytes of a safetensors file."""
    named = [
        (f"{number}.{case.method}.{role}.{tensor.name}", tensor)
        for number, case in enumerate(cases)
        for role, tensors in (("input", case.inputs), ("output", case.outputs), (_SEED, _pack_seed(case.seed)))
        for tensor in tensors
    ]
    return b"".join(tensor_file.iter_file_bytes(named))


def read(descriptor: int) -> list[GoldenCase]:
    """Return the cases in the file that is open under this descriptor, and close it.

    Raises what safetensors raises if the file is not in its format.
    """
    with open(descriptor, "rb") as file:
        entries = safetensors.deserialize(file.read())  # type: ignore[no-untyped-call]
    cases: dict[int, GoldenCase] = {}
    for path, tensor in entries:
        number, method, role, leaf = path.split(".", 3)
        case = cases.get(int(number), GoldenCase(method, (), ()))
        named = Tensor(leaf, tensor_file.DATATYPES[tensor["dtype"]], tuple(tensor["shape"]), tensor["data"])
        cases[int(number)] = _with_tensor(case, role, named)
    return [cases[number] for number in sorted(cases)]


def _pack_seed(seed: int | None) -> Sequence[Tensor]:
    return () if seed is None else (Tensor("", Datatype.INT64, (), seed.to_bytes(8, "little")),)


def _unpack_seed(tensor: Tensor) -> int:
    """Raises ValueError for what is no seed."""
    seed = int.from_bytes(tensor.data, "little")
    if not 0 <= seed <= SEED_MAX:
        raise ValueError("a golden case has a seed that is too large")
    return seed


def _with_tensor(case: GoldenCase, role: str, tensor: Tensor) -> GoldenCase:
    if role == _SEED:
        return replace(case, seed=_unpack_seed(tensor))
    if role == "input":
        return replace(case, inputs=[*case.inputs, tensor])
    return replace(case, outputs=[*case.outputs, tensor])
