"""The live check: requests that were answered are answered once more by the model in Python, and the two compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from pydantic import Field, JsonValue

from tracehouse.artifact.blob import BlobRef
from tracehouse.contract.structure import Structure
from tracehouse.differential.comparison import Answer, Difference
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Tensor, TensorSpec

# Of one version, the first ones. Chosen: more than a person looks at.
LIVE_COUNTEREXAMPLES_MAX = 4


class LiveResult(StrEnum):
    """What became of a request that was drawn for the check.

    dropped: too many others waited. could_not_run: the model gave nothing that the answer could be compared with.
    """

    EQUAL = "equal"
    DIFFERENT = "different"
    DROPPED = "dropped"
    COULD_NOT_RUN = "could_not_run"


@dataclass(frozen=True, eq=False)
class LiveCall:
    """A request that was answered: the inputs in the contract's order, and all outputs of the artifact.

    The artifact's archive has `archive_bytes`.
    """

    tenant: str
    model: str
    version: int
    digest: str
    method: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    returns: Structure
    archive_bytes: int = 0
    trace_context: Mapping[str, str] | None = None  # of the trace of OpenTelemetry in which it was answered

    @property
    def version_key(self) -> tuple[str, str, int]:
        return self.tenant, self.model, self.version

    @property
    def method_key(self) -> tuple[str, str, str]:
        """The method of the artifact that answered."""
        return self.tenant, self.digest, self.method

    @property
    def answer(self) -> Answer:
        return Answer(self.returns, {tensor.name: tensor for tensor in self.outputs})

    @cached_property
    def held_bytes(self) -> int:
        """The bytes that are in memory as long as this is: those of the whole buffers that the tensors are parts of."""
        parts = (tensor.data for tensor in (*self.inputs, *self.outputs))
        buffers = [part.obj if isinstance(part, memoryview) else part for part in parts]
        return sum(memoryview(buffer).nbytes for buffer in {id(one): one for one in buffers}.values())


@dataclass(frozen=True)
class LiveDifference:
    """How an answer differs from that of the model; `eager` is None if the model raised, which the text then says."""

    call: LiveCall
    difference: Difference
    eager: Answer | None

    @property
    def byte_size(self) -> int:
        eager = [] if self.eager is None else [*self.eager.leaves.values()]
        return sum(len(tensor.data) for tensor in (*self.call.inputs, *self.call.outputs, *eager))


@dataclass(frozen=True)
class LiveOutcome:
    """What became of one call. `why` says why it could not run; `lasts`: other calls of the method could not either."""

    result: LiveResult
    why: str | None = None
    lasts: bool = False
    found: LiveDifference | None = None


class LiveCounterexample(Frozen):
    """A request whose answer was not that of the model."""

    digest: str = Field(description="The artifact that answered.")
    method: str
    inputs: list[TensorSpec]
    output: str = Field(description="The output that differs.")
    difference: str
    eager: JsonValue = Field(None, description="What the model gave where the two differ most.")
    artifact: JsonValue = Field(None, description="What the artifact answered there.")
    arrays: BlobRef = Field(
        description="An `.npz` of `input.*`, `eager.*` and `artifact.*`. The first one is at "
        "`/models/{name}/versions/{version}/counterexamples/0.npz`."
    )
    found_at: datetime


class LiveCheck(Frozen):
    """What the live check found of one version, since the version was registered."""

    asked: int = Field(0, description="Requests that were answered and then drawn for the check.")
    equal: int = Field(0, description="Checked requests to which the model in Python gave the same answer.")
    different: int = Field(0, description="Checked requests to which the model in Python gave another answer.")
    dropped: int = Field(0, description="Requests that were drawn and not checked, because too many others waited.")
    could_not_run: int = Field(
        0, description="Requests that were drawn and not checked, because the model gave nothing to compare with."
    )
    why: str | None = Field(None, description="Why the last of `could_not_run` was not checked.")
    counterexamples: list[LiveCounterexample] = Field(
        [], description="The first of the `different` requests, as far as their arrays could be kept."
    )

    @property
    def may_keep(self) -> int:
        """How many more counterexamples may be kept."""
        return max(0, LIVE_COUNTEREXAMPLES_MAX - len(self.counterexamples))

    def add(self, later: "LiveCheck") -> "LiveCheck":
        """Return both together."""
        return LiveCheck(
            asked=self.asked + later.asked,
            equal=self.equal + later.equal,
            different=self.different + later.different,
            dropped=self.dropped + later.dropped,
            could_not_run=self.could_not_run + later.could_not_run,
            why=later.why or self.why,
            counterexamples=[*self.counterexamples, *later.counterexamples[: self.may_keep]],
        )
