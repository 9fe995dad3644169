"""Counterexamples: the smallest inputs that were found on which the eager model and the artifact differ."""

from pydantic import JsonValue

from tracehouse.artifact.blob import BlobRef
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import TensorSpec


class Counterexample(Frozen):
    """One counterexample. `arrays` is an `.npz` of `input.*`, `eager.*` and `artifact.*`; `test` is a pytest file."""

    method: str
    case: str
    inputs: list[TensorSpec]
    output: str
    difference: str
    eager: JsonValue = None
    artifact: JsonValue = None
    arrays: BlobRef
    test: BlobRef
