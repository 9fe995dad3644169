"""An artifact: immutable, named by the SHA-256 of its manifest, which names its bytes by theirs."""

import hashlib
from typing import Annotated, Any, Literal

import orjson
from pydantic import FailFast, Field, model_validator

from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.conversion_attempt import ConversionAttempt
from tracehouse.artifact.counterexample import Counterexample
from tracehouse.artifact.exportability import Exportability
from tracehouse.contract.contract import Contract
from tracehouse.findings.trace_check import TraceCheck
from tracehouse.frozen import Frozen, with_new_names
from tracehouse.spec.trace_spec import DeviceName, Precision, ServedForm, Training, served_form
from tracehouse.tensors.tensor import Shape, TensorSpec

GraphKind = Literal["graph", "inlined_graph", "onnx_trace"]
PrintoutKind = Literal[GraphKind, "code", "code_with_constants", "dump"]
# Of both the first ones are told; a model of some hundred submodules has as many.
ATTRIBUTES_MAX = 1000
CONSTANTS_MAX = 1000
ATTRIBUTE_TEXT_MAX_CHARACTERS = 300

Form = Literal["traced", "scripted", "mixed", "uploaded"]
# The process that ran the model's code made them: of a million values that are none, the first one is mistake enough.
ValueNames = Annotated[list[str], FailFast()]


class GraphNode(Frozen):
    """One node of a graph: its operator, its values, and the source line that made it.

    A block of a node (`prim::If` has two, `prim::Loop` one) begins with `prim::Param`, whose outputs are the values
    that it is given, and ends with `prim::Return`, whose inputs are those that it gives back.
    """

    operator: str
    inputs: ValueNames
    outputs: ValueNames
    types: ValueNames = Field(description="The outputs' types, shapes included where torch knows them.")
    attributes: dict[str, str] = Field(
        default={}, description="As text, long ones shortened: a constant's `value`, the `name` of what is read."
    )
    scope: str = Field(default="", description="The submodule whose part it is, `encoder.layers.0`.")
    file: str | None = None
    line: int | None = None
    source: str | None = None
    parent: int | None = Field(default=None, description="The place in `nodes` of the one in whose block it stands.")
    block: int | None = Field(default=None, description="Which of its parent's blocks, the first is 0.")


class Printout(Frozen):
    """One textual view of one method of one submodule; "" is the model itself. Only graphs have nodes.

    A `dump` is of a module and no method of it: its `method` is "".
    """

    kind: PrintoutKind
    method: str
    submodule: str
    text: str
    inputs: ValueNames = []
    outputs: ValueNames = []
    nodes: Annotated[list[GraphNode], FailFast()] = []


class Submodule(Frozen):
    """A part of the traced model under its dotted name, its Python type, and its methods that were traced."""

    name: str
    type: str
    methods: list[str] = []


class ModuleAttribute(Frozen):
    """What a traced module holds beside tensors and submodules: `layer.training`, its TorchScript type, its value."""

    name: str = Field(max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS)
    type: str = Field(max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS)
    value: str = Field(max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS, description="As text; a long one is shortened.")


class TensorConstant(Frozen):
    """A tensor that a method's code refers to as `CONSTANTS.c0`: its values are in the printout `code_with_constants`.

    The trace baked it in: no weights replace it.
    """

    name: str = Field(max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS)
    datatype: str = Field(max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS, description="torch's word where there is no other.")
    shape: Shape
    method: str = Field(max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS)
    submodule: str = Field(max_length=ATTRIBUTE_TEXT_MAX_CHARACTERS, description='Whose method: "" is the model.')


ModuleAttributes = Annotated[list[ModuleAttribute], FailFast(), Field(max_length=ATTRIBUTES_MAX)]
TensorConstants = Annotated[list[TensorConstant], FailFast(), Field(max_length=CONSTANTS_MAX)]


class Versions(Frozen):
    """What it was made with."""

    torch: str
    python: str
    tracehouse: str


class Artifact(Frozen):
    """The manifest. `golden` holds a few inputs with the eager outputs, replayed whenever the archive is loaded."""

    device: DeviceName
    entrypoint: str | None
    form: Form = Field(
        "traced",
        description="How the archive came about; `mixed`: traced, with some parts of the model scripted by mode auto.",
    )
    attempts: list[ConversionAttempt] = Field([], description="The ways that mode auto tried, in their order.")
    training: Training = Field(False, description="The mode of the model, as it was asked for.")
    precision: Precision | None = Field(None, description="What model and inputs were cast to first; null: nothing.")
    contract: Contract
    check: TraceCheck
    archive: BlobRef = Field(description="With its contract and golden cases in its `_extra_files`.")
    printouts: BlobRef
    golden: BlobRef
    sources: BlobRef | None = Field(
        None, description="The submitted files that findings name, as JSON: each path with its text."
    )
    counterexamples: list[Counterexample] = Field([], description="The smallest inputs found that it answers wrongly.")
    bucket: dict[str, int] = Field({}, description="The sizes that its symbols have, where it is one of several.")
    exported: BlobRef | None = Field(
        None, description="The `.pt2`, where it was asked for: compared with eager on the example, and never verified."
    )
    exportability: Exportability | None = Field(
        None, description="What the process that traced, which ran the model's code, says of torch.export."
    )
    freeze: bool = Field(description="Whether what torch.jit.freeze makes of the archive is served.")
    optimize_for_inference: bool = Field(
        False, description="Whether what torch.jit.optimize_for_inference makes of it is served."
    )
    submodules: list[Submodule]
    parameters: list[TensorSpec]
    buffers: list[TensorSpec]
    attributes: ModuleAttributes = []
    constants: TensorConstants = []
    missing_weights: list[str] = []
    unexpected_weights: list[str] = []
    versions: Versions

    @model_validator(mode="before")
    @classmethod
    def _read_old_name(cls, document: Any) -> Any:
        return with_new_names(document, {"tried": "attempts"})

    @property
    def served_form(self) -> ServedForm | None:
        return served_form(freeze=self.freeze, optimize_for_inference=self.optimize_for_inference)

    def manifest(self) -> bytes:
        """Canonical JSON: equal artifacts have equal bytes.

        Fields stand in their classes' order, and the keys of a dict in its own, for a model may read it in that order.
        """
        return orjson.dumps(self.model_dump(mode="json"))

    @property
    def stored_bytes(self) -> int:
        """What it takes to keep: its files and its manifest."""
        return len(self.manifest()) + sum(blob.byte_size for blob in self._files if blob is not None)

    @property
    def digest(self) -> str:
        return "sha256:" + hashlib.sha256(self.manifest()).hexdigest()

    @property
    def _files(self) -> tuple[BlobRef | None, ...]:
        shown = [blob for one in self.counterexamples for blob in (one.arrays, one.test)]
        return self.archive, self.printouts, self.golden, self.exported, self.sources, *shown
