"""Errors of inference inputs: they lie outside an artifact's contract."""

from tracehouse.errors.base import CallerError, InvalidRequest, NotFound


class InvalidTensor(InvalidRequest):
    """A tensor's data does not fit its datatype and shape

    Give as many values as the shape has, flat or nested as the shape, and of the datatype.
    """


class MethodNotFound(NotFound):
    """The artifact has no such method

    Ask for a method that was traced: the contract in the manifest has them.
    """


class ContractViolation(CallerError):
    """The inputs lie outside the artifact's contract"""


class MissingInput(ContractViolation):
    """An input of the contract was not sent

    Send every input of the contract.
    """


class UnexpectedInput(ContractViolation):
    """An input was sent that the contract does not know

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
    """Sizes that belong together disagree

    Give the dims that the contract names alike sizes that go together, such as `ids` and its mask one length.
    """


class SizeOutOfRange(ContractViolation):
    """A size lies outside those that the contract takes

    Send a size that lies in one of the contract's `regions`, or trace the model again with the wanted ones as `sizes`.
    """


class NoBucket(ContractViolation):
    """The model has no bucket of these sizes

    Send the sizes of a bucket, or trace the model again with these sizes among `buckets`.
    """


class ValueOutOfRange(ContractViolation):
    """An input has a value outside the range of the contract

    Send values within the range: on others the model itself raises.
    """


class StructureMismatch(ContractViolation):
    """An argument nests otherwise than the contract

    Nest the argument as the example input of the trace was nested.
    """


class BakedArgument(ContractViolation):
    """An argument was sent with another value than the one that the trace baked in, or that the script was tried with

    Send the value of the contract, leave it out, or trace again with the other value.
    """
