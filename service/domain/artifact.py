"""An artifact: immutable, named by the SHA-256 of its manifest, which names its bytes by theirs."""

import hashlib
from typing import Annotated, Literal

import orjson
from pydantic import FailFast, Field

from service.domain.blob import BlobRef
from service.domain.contract import Contract
from service.domain.frozen import Frozen
from service.domain.tensor import TensorSpec
from service.domain.trace_check import TraceCheck

PrintoutKind = Literal["graph", "inlined_graph", "code"]
# The process that ran the model's code made them: of a million values that are none, the first one is mistake enough.
ValueNames = Annotated[list[str], FailFast()]


class GraphNode(Frozen):
    """One node of a graph: its operator, its values, and the source line that made it."""

    operator: str
    inputs: ValueNames
    outputs: ValueNames
    types: ValueNames = Field(description="The outputs' types, shapes included where torch knows them.")
    scope: str = ""
    file: str | None = None
    line: int | None = None
    source: str | None = None


class Printout(Frozen):
    """One textual view of one method of one submodule; "" is the model itself. `code` has no nodes."""

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


class Versions(Frozen):
    """What it was made with."""

    torch: str
    python: str
    tracehouse: str


class Artifact(Frozen):
    """The manifest. `golden` holds a few inputs with the eager outputs, replayed whenever the archive is loaded."""

    device: str
    entrypoint: str
    contract: Contract
    check: TraceCheck
    archive: BlobRef
    printouts: BlobRef
    golden: BlobRef
    freeze: bool
    submodules: list[Submodule]
    parameters: list[TensorSpec]
    buffers: list[TensorSpec]
    missing_weights: list[str] = []
    unexpected_weights: list[str] = []
    versions: Versions

    def manifest(self) -> bytes:
        """Canonical JSON: equal artifacts have equal bytes."""
        return orjson.dumps(self.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)

    @property
    def stored_bytes(self) -> int:
        """What it takes to keep: its files and its manifest."""
        return len(self.manifest()) + sum(blob.byte_size for blob in (self.archive, self.printouts, self.golden))

    @property
    def digest(self) -> str:
        return "sha256:" + hashlib.sha256(self.manifest()).hexdigest()
