"""The protocol's documents about a model: its metadata, and the configuration that Triton's clients ask for."""

from collections.abc import Iterable, Sequence
from typing import Self

from pydantic import Field

from service.serving.inference import ServedModel
from tracehouse.contract.contract import Contract
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Datatype

PLATFORM = "pytorch_torchscript"
_FORWARD = "forward"


class TensorMetadata(Frozen):
    """One input or output."""

    name: str
    datatype: Datatype
    shape: list[int] = Field(description="-1 for a dim that may have several sizes: the contract says which.")


class ModelMetadata(Frozen):
    """A model's inputs and outputs. Outputs that nest have their path as their name, such as `output.0`."""

    name: str
    versions: list[str] = Field(description="The version that answers.")
    platform: str = PLATFORM
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]

    @classmethod
    def of(cls, model: ServedModel, method: str) -> Self:
        """Raises MethodNotFound."""
        contracts = model.method(method).contracts
        return cls(
            name=model.name,
            versions=[str(model.version.version)],
            inputs=[_metadata(specs) for specs in zip(*(one.inputs for one in contracts), strict=True)],
            outputs=[_metadata(specs) for specs in zip(*(one.outputs for one in contracts), strict=True)],
        )


class TensorConfig(Frozen):
    """One input or output, as Triton's model configuration names it."""

    name: str
    data_type: str
    dims: list[int]

    @classmethod
    def of(cls, tensor: TensorMetadata) -> Self:
        return cls(name=tensor.name, data_type=f"TYPE_{tensor.datatype}", dims=tensor.shape)


class ModelConfig(Frozen):
    """The part of Triton's model configuration that clients read. With `max_batch_size` 0, shapes are whole."""

    name: str
    platform: str = PLATFORM
    max_batch_size: int = 0
    input: list[TensorConfig]
    output: list[TensorConfig]

    @classmethod
    def of(cls, metadata: ModelMetadata) -> Self:
        return cls(
            name=metadata.name,
            input=[TensorConfig.of(one) for one in metadata.inputs],
            output=[TensorConfig.of(one) for one in metadata.outputs],
        )


def method_of(contracts: Sequence[Contract], asked: str | None) -> str:
    """Return the method that is asked for; else `forward`, or the model's first one if it has no such method."""
    if asked is not None:
        return asked
    methods = contracts[0].methods
    return _FORWARD if _FORWARD in methods else next(iter(methods))


def _metadata(specs: Sequence[InputSpec] | Sequence[OutputSpec]) -> TensorMetadata:
    """Describe a tensor by its spec in each bucket."""
    name, datatype = specs[0].name, specs[0].datatype
    ranks = {len(spec.shape) for spec in specs}
    shapes = [spec.shape for spec in specs] if len(ranks) == 1 else []
    return TensorMetadata(name=name, datatype=datatype, shape=[_size(dims) for dims in zip(*shapes, strict=True)])


def _size(dims: Iterable[int | str]) -> int:
    first, *others = set(dims)
    return first if isinstance(first, int) and not others else -1
