"""Errors of inference inputs: they lie outside an artifact's contract."""

from tracehouse.errors.base import CallerError, InvalidRequest, NotFound


class InvalidTensor(InvalidRequest):
    """A tensor's data does not fit its datatype and shape

    Send as many values as the shape has, flat or nested as the shape, each of the datatype.
    """


class MalformedTensors(InvalidRequest):
    """A file of tensors cannot be read

    Send the whole file, as numpy or safetensors writes it.
    """


class PictureUnreadable(InvalidRequest):
    """A picture cannot be read

    Send a whole PNG or JPEG file with 8 bits for each channel, in colours or grey, under its own content type.
    """


class MethodNotFound(NotFound):
    """The artifact has no such method

    Ask for a method that was traced: the contract in the manifest lists them.
    """


class ContractViolation(CallerError):
    """The inputs lie outside the artifact's contract"""


class MissingInput(ContractViolation):
    """An input of the contract was not sent

    Send every input of the contract.
    """


class UnexpectedInput(ContractViolation):
    """An input was sent that the contract does not have

    Send only inputs of the contract, under their names.
    """


class DatatypeMismatch(ContractViolation):
    """An input has another datatype than the contract

    Send the datatype of the contract.
    """


class ShapeMismatch(ContractViolation):
    """An input has another shape than the contract

    Send the shape of the contract, or trace the model again on inputs of this shape.
    """


class SizesDisagree(ContractViolation):
    """Two inputs disagree about a size

    Dims with the same symbol in the contract must have the same size, as the lengths of `ids` and its mask.
    """


class SizeOutOfRange(ContractViolation):
    """A size lies outside the contract's regions

    Send a size in one of the contract's `regions`, or trace the model again with the wanted sizes in `sizes`.
    """


class TooMuchMemory(ContractViolation):
    """A call of these sizes needs too much memory

    Send fewer rows or shorter inputs at a time. Whoever runs the service can raise the limit with RUNNER_MEMORY_MIB.
    """


class NoBucket(ContractViolation):
    """The model has no bucket for these sizes

    Send the sizes of a bucket, or trace the model again with these sizes in `buckets`.
    """


class ValueOutOfRange(ContractViolation):
    """An input has a value outside the range of the contract

    Send values within the range: the model raises on others.
    """


class StructureMismatch(ContractViolation):
    """An argument is nested differently from the contract

    Nest the argument as the example input was nested.
    """


class KeyOrderMismatch(ContractViolation):
    """The keys of an object come in another order than the model was checked with

    Send the keys in the contract's order, because the model's answer depends on it. Or send the tensors by their names,
    which have no order.
    """


class BakedArgument(ContractViolation):
    """An argument differs from the value that was baked into the trace, or that the script was checked with

    Send the value of the contract, leave it out, or trace again with the other value.
    """
