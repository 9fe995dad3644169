"""The manifest of an artifact. Its SHA-256 names the artifact; the files in it are named by theirs."""

import hashlib
from typing import Annotated, Any, Literal

import orjson
from pydantic import FailFast, Field, model_validator

from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.conversion_attempt import ConversionAttempt
from tracehouse.artifact.counterexample import Counterexample
from tracehouse.artifact.environment import EnvironmentRef
from tracehouse.artifact.exportability import Exportability
from tracehouse.contract.contract import Contract
from tracehouse.findings.trace_check import TraceCheck
from tracehouse.frozen import Frozen, with_new_names
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import DeviceName, Precision, ServedForm, Training, served_form
from tracehouse.tensors.tensor import Shape, TensorSpec

GraphKind = Literal["graph", "inlined_graph", "onnx_trace"]
PrintoutKind = Literal[GraphKind, "code", "code_with_constants", "dump"]
# How many attributes and constants are listed. Chosen: a model of some hundred submodules has about as many.
ATTRIBUTES_MAX = 1000
CONSTANTS_MAX = 1000
ATTRIBUTE_TEXT_MAX_CHARACTERS = 300

Form = Literal["traced", "scripted", "mixed", "uploaded"]
# The names come from the process that ran submitted code. FailFast stops at the first error: a forged list could have a
# million wrong values, each with an error of its own.
ValueNames = Annotated[list[str], FailFast()]


class GraphNode(Frozen):
    """One node of a graph: its operator, its values, and the source line that made it.

    A node may have blocks: `prim::If` has two, `prim::Loop` one. A block begins with `prim::Param`, whose outputs are
    the block's inputs, and ends with `prim::Return`, whose inputs are the block's results.
    """

    operator: str
    inputs: ValueNames
    outputs: ValueNames
    types: ValueNames = Field(description="The outputs' types, shapes included where torch knows them.")
    attributes: dict[str, str] = Field(
        default={},
        description="As text, long ones shortened: a constant's `value`, the `name` of an attribute that is read.",
    )
    scope: str = Field(default="", description="The submodule that it belongs to, as `encoder.layers.0`.")
    file: str | None = None
    line: int | None = None
    source: str | None = None
    parent: int | None = Field(default=None, description="The place in `nodes` of the node whose block it is in.")
    block: int | None = Field(default=None, description="The number of its parent's block, from 0 on.")


class Printout(Frozen):
    """One textual view of one method of one submodule. The submodule "" is the model. Only graphs have nodes.

    A `dump` shows a whole module: its `method` is "".
    """

    kind: PrintoutKind
    method: str
    submodule: str
    text: str
    inputs: ValueNames = []
    outputs: ValueNames = []
    nodes: Annotated[list[GraphNode], FailFast()] = []


class Submodule(Frozen):
    """A submodule of the traced model: its dotted name, its Python type, and its traced methods."""

    name: str
    type: str
    methods: list[str] = []


class ModuleAttribute(Frozen):
    """An attribute of a traced module that is neither a tensor nor a submodule, as `layer.training`."""

    name: str = Field(max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS)
    type: str = Field(max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS)
    value: str = Field(max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS, description="As text; a long one is shortened.")


class TensorConstant(Frozen):
    """A tensor that a method's code refers to as `CONSTANTS.c0`. The trace baked it in: no weights replace it.

    The printout `code_with_constants` has its values.
    """

    name: str = Field(max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS)
    datatype: str = Field(
        max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS,
        description="torch's name of the dtype if the protocol has no datatype for it.",
    )
    shape: Shape
    method: str = Field(max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS)
    submodule: str = Field(
        max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS, description='The submodule of the method; "" is the model.'
    )


ModuleAttributes = Annotated[list[ModuleAttribute], FailFast(), Field(max_length=ATTRIBUTES_MAX)]
TensorConstants = Annotated[list[TensorConstant], FailFast(), Field(max_length=CONSTANTS_MAX)]


class Versions(Frozen):
    """The versions that the artifact was made with."""

    torch: str
    python: str
    tracehouse: str


class Artifact(Frozen):
    """The manifest. `golden` holds a few inputs with eager's outputs, replayed whenever the archive is loaded."""

    device: DeviceName
    entrypoint: str | None
    form: Form = Field(
        "traced",
        description="How the archive was made. `mixed`: traced, with some submodules scripted by mode auto.",
    )
    conversion: Conversion | None = Field(
        None, description="How it was made, so that its check can go on. Null if an earlier release made it."
    )
    continues: str | None = Field(
        None,
        description="The artifact whose check went on, by its digest: this one has the same archive, checked with a "
        "larger budget. Null if the archive was made for this one.",
    )
    attempts: list[ConversionAttempt] = Field([], description="The ways that mode auto tried, in order.")
    training: Training = Field(False, description="The requested mode of the model.")
    precision: Precision | None = Field(
        None, description="The dtype to which model and inputs were cast first; null: none."
    )
    contract: Contract
    check: TraceCheck
    archive: BlobRef = Field(
        description="The TorchScript archive, with contract and golden cases in its `_extra_files`."
    )
    printouts: BlobRef
    golden: BlobRef
    sources: BlobRef | None = Field(
        None, description="The submitted files that findings name, as JSON: each path with its text."
    )
    counterexamples: list[Counterexample] = Field(
        [], description="The smallest inputs that were found to be answered wrongly."
    )
    bucket: dict[str, int] = Field({}, description="For a bucket, the sizes of its symbols.")
    exported: BlobRef | None = Field(
        None, description="The `.pt2`, if it was asked for: compared with eager on the example, and not verified."
    )
    exportability: Exportability | None = Field(
        None, description="What the tracing process, which ran submitted code, says about torch.export."
    )
    freeze: bool = Field(description="Whether the form that torch.jit.freeze makes of the archive is served.")
    optimize_for_inference: bool = Field(
        False, description="Whether the form that torch.jit.optimize_for_inference makes is served."
    )
    submodules: list[Submodule]
    parameters: list[TensorSpec]
    buffers: list[TensorSpec]
    attributes: ModuleAttributes = []
    constants: TensorConstants = []
    missing_weights: list[str] = Field(
        [], description="Parameters and buffers that got no value from the weights that were sent."
    )
    unexpected_weights: list[str] = Field([], description="Names in the weights that the model does not have.")
    environment: EnvironmentRef | None = Field(
        None, description="The environment that the source imported packages from; null: the service's own alone."
    )
    versions: Versions

    @model_validator(mode="before")
    @classmethod
    def _read_old_name(cls, document: Any) -> Any:
        return with_new_names(document, {"tried": "attempts"})

    @property
    def served_form(self) -> ServedForm | None:
        """The form that is served; None if the archive is served as it was saved."""
        return served_form(freeze=self.freeze, optimize_for_inference=self.optimize_for_inference)

    def manifest(self) -> bytes:
        """Return the manifest as canonical JSON: equal artifacts have equal bytes.

        Fields have the order of their classes; keys of a dict keep their order, because a model may read it.
        """
        return orjson.dumps(self.model_dump(mode="json"))

    @property
    def stored_bytes(self) -> int:
        """The number of bytes that the artifact takes in storage: its files and its manifest.

        What it has from the artifact whose check it continues is stored once, and counts there.
        """
        files = self._files_of_check if self.continues is not None else self._files
        return len(self.manifest()) + sum(blob.byte_size for blob in files if blob is not None)

    @property
    def digest(self) -> str:
        """The artifact's name: `sha256:` and the SHA-256 of the manifest as 64 hex digits."""
        return "sha256:" + hashlib.sha256(self.manifest()).hexdigest()

    @property
    def _files(self) -> tuple[BlobRef | None, ...]:
        return self.archive, self.printouts, self.exported, *self._files_of_check

    @property
    def _files_of_check(self) -> tuple[BlobRef | None, ...]:
        reproducers = [blob for one in self.counterexamples for blob in (one.arrays, one.test)]
        return self.golden, self.sources, *reproducers
