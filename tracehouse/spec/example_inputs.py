"""Example inputs: nested lists, tuples and dicts whose leaves are tensors, numbers, booleans, strings or null.

As in torch.jit.trace, the trace is recorded on `example_inputs` and checked on `check_inputs`.
"""

import re
from collections.abc import Collection
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypeAliasType

from tracehouse.byte_units import GIB
from tracehouse.contract.dims import Expression
from tracehouse.errors import InvalidTensor
from tracehouse.frozen import Frozen, at_most
from tracehouse.spec.image_reading import ImageReading, is_image
from tracehouse.spec.tensor_values import TensorValues
from tracehouse.tensors.tensor import Datatype, Shape, pack

# Of names, in characters. Chosen: no honest name is longer, and errors repeat them.
FILE_NAME_MAX = 200
METHOD_NAME_MAX = 200
TENSOR_KEY_MAX = 1000

# Of one file. Each sample is a call of both models, in three processes. Chosen.
SAMPLES_MAX = 64
# Of all files of a request. Chosen.
REQUEST_SAMPLES_MAX = 512
# Of all calls of a request: each tensor, and each value and container outside of tensors. Chosen: a trace bakes such a
# value in, so a long list of numbers is meant for a tensor.
INPUT_VALUES_MAX = 10_000
# A random tensor needs no upload: without a limit, a line of JSON could ask for terabytes. Chosen.
RANDOM_TENSOR_MAX_BYTES = GIB


class InlineTensor(Frozen):
    """A tensor whose values are in the request."""

    datatype: Datatype
    shape: Shape
    data: TensorValues = Field(description="Row-major, flat or nested.")

    @model_validator(mode="after")
    def _check_data(self) -> Self:
        try:
            self.pack()
        except InvalidTensor as error:
            raise PydanticCustomError("invalid_tensor", "{detail}", {"detail": error.detail}) from error
        return self

    def pack(self) -> bytes:
        """Return the values as row-major little-endian bytes. Raises InvalidTensor if they do not fit."""
        return pack(self.datatype, self.shape, self.data.data)


class RandomValues(Frozen):
    """How a random tensor is drawn: uniform in [low, high), or standard normal if neither is given."""

    seed: int = Field(0, ge=0, lt=2**63)
    low: float | None = Field(None, allow_inf_nan=False)
    high: float | None = Field(None, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise PydanticCustomError("half_range", "give both low and high, or neither")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise PydanticCustomError("empty_range", "low must be less than high")
        return self


class RandomTensor(Frozen):
    """A tensor drawn from a seeded generator: the same request gives the same values.

    Without low and high, floats are standard normal; integers are 0 or 1 and booleans false or true, equally often.
    """

    datatype: Datatype
    shape: Shape
    random: RandomValues

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        if prod(self.shape) * self.datatype.item_bytes > RANDOM_TENSOR_MAX_BYTES:
            raise PydanticCustomError("too_large", "a random tensor has at most 1 GiB")
        return self


class FileTensor(Frozen):
    """A tensor in an uploaded `.safetensors`, `.npz` or `.pt` file. `key` may be left out if it has one tensor."""

    file: str = Field(min_length=1, max_length=FILE_NAME_MAX)
    key: str | None = Field(None, max_length=TENSOR_KEY_MAX)


class TupleInput(Frozen):
    """A tuple. JSON has no tuples, and torch treats tuples and lists differently."""

    tuple: list["InputTree"]


# pydantic adds these names to the location of an error, and we remove them. No member of a request has such a name.
_TENSORS = ("inline-tensor", "random-tensor", "file-tensor")


def _kind_of(value: Any) -> str | None:
    match value:
        case InlineTensor() | {"datatype": _, "data": _}:
            return "inline-tensor"
        case RandomTensor() | {"datatype": _, "random": _}:
            return "random-tensor"
        case {"datatype": _}:
            return "inline-tensor"
        case FileTensor() | {"file": str()}:
            return "file-tensor"
        case TupleInput():
            return "tuple-of-inputs"
        case {"tuple": _} if len(value) == 1:
            return "tuple-of-inputs"
        case dict():
            return "dict-of-inputs"
        case list() | tuple():
            return "list-of-inputs"
    return "scalar"


if TYPE_CHECKING:
    InputTree = Any  # mypy cannot follow a recursive union
else:
    InputTree = TypeAliasType(
        "InputTree",
        Annotated[
            Annotated[InlineTensor, Tag("inline-tensor")]
            | Annotated[RandomTensor, Tag("random-tensor")]
            | Annotated[FileTensor, Tag("file-tensor")]
            | Annotated[TupleInput, Tag("tuple-of-inputs")]
            | Annotated[dict[str, "InputTree"], Tag("dict-of-inputs")]
            | Annotated[list["InputTree"], Tag("list-of-inputs")]
            | Annotated[StrictBool | StrictInt | StrictFloat | StrictStr | None, Tag("scalar")],
            Discriminator(_kind_of),
        ],
    )
# Resolve the reference now, not at the first use: by then a source may have put a module of this name in sys.modules.
TupleInput.model_rebuild()


def _as_arguments(value: Any) -> Any:
    """Return a single tensor as a list of one, as torch.jit.trace does."""
    return [value] if _kind_of(value) in _TENSORS else value


def count_values(tree: Any, most: int) -> int:
    """Return how many tensors, containers and other values an input tree has as JSON; if more than `most`, at least so
    many."""
    count, level = 1, [tree]
    while level and count <= most:
        inner = [_items(each) for each in level]
        count += sum(map(len, inner))
        level = [*chain.from_iterable(inner)] if count <= most else []
    return count


def _items(tree: Any) -> Collection[Any]:
    """Return the items of a container; a tensor has none."""
    match tree:
        case list():
            return tree
        case dict() if _kind_of(tree) not in _TENSORS:
            return tree.values()
    return ()


# At most 256 arguments of either kind. Chosen: no method has as many parameters.
Arguments = Annotated[list[InputTree], BeforeValidator(_as_arguments), Field(max_length=256)]
KeywordArguments = Annotated[dict[str, InputTree], Field(max_length=256), at_most(256)]


INPUTS_LIMIT = (
    f"All calls of a request together have at most {INPUT_VALUES_MAX:,} inputs. A tensor counts as one, and so does "
    "each number in a list that is no tensor's data."
)


class CallInputs(Frozen):
    """The inputs of one call of one method."""

    example_inputs: Arguments = Field([], description=f"Positional arguments. {INPUTS_LIMIT}")
    example_kwarg_inputs: KeywordArguments = Field({}, description="Keyword arguments.")


def _check_dim(text: str) -> str:
    if re.fullmatch("[0-9]{1,2}", text) is None:
        raise PydanticCustomError("dim", 'a dim is counted from the left, from 0 on: "0", "1" and so on')
    return text


_Dim = Annotated[str, AfterValidator(_check_dim), WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,2}$"})]
# At most 32 dims, as in `tracehouse.tensors.tensor.Shape`.
DynamicDims = Annotated[dict[_Dim, Expression], Field(max_length=32), at_most(32)]
Dynamic = Annotated[dict[str, DynamicDims], Field(max_length=200), at_most(200)]


class MethodInputs(CallInputs):
    """The example inputs of one method."""

    dynamic: Dynamic = Field(
        {},
        description="Which dims of which inputs vary, by the inputs' names in the contract: "
        '`{"ids": {"1": "seq"}, "mask": {"1": "seq"}}`. Left out: the check finds them.',
    )


class SampleFile(Frozen):
    """Real inputs in an uploaded `.npz`, `.safetensors` or `.pt` file, or one in a picture: `.png`, `.jpg` or `.jpeg`.

    An entry is named by the sample's number from 0 and the input's name in the contract: `0/ids`, `0/mask`, `1/ids`.
    Arguments that are no tensors are those of the example. A picture is one input of one sample, and fills the
    example's batch; all other arguments are those of the example.
    """

    file: str = Field(min_length=1, max_length=FILE_NAME_MAX)
    count: int = Field(1, ge=1, le=SAMPLES_MAX, description="How many samples the file has.")
    method: str = Field("forward", max_length=METHOD_NAME_MAX)
    image: ImageReading | None = Field(
        None, description="How a picture becomes an input. Left out: at the example's height and width, from 0 to 1."
    )

    @model_validator(mode="after")
    def _check_image(self) -> Self:
        if self.image is not None and not is_image(self.file):
            raise PydanticCustomError("no_image", "image is for .png, .jpg and .jpeg files: leave it out")
        if self.count > 1 and is_image(self.file):
            raise PydanticCustomError("image_count", "a picture is one sample: leave out count")
        return self

    @property
    def image_reading(self) -> ImageReading | None:
        """How the picture becomes an input; None if the file is no picture."""
        return (self.image or ImageReading()) if is_image(self.file) else None


class CheckInput(CallInputs):
    """A further call to compare on. A bare list means the positional arguments of `forward`."""

    method: str = Field("forward", max_length=METHOD_NAME_MAX)

    @model_validator(mode="before")
    @classmethod
    def _bare_arguments(cls, value: Any) -> Any:
        bare = isinstance(value, list) or _kind_of(value) in _TENSORS
        return {"example_inputs": value} if bare else value
