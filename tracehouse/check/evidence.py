"""The evidence of one method: what each layer of the check found out. Findings and claim follow from it alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from tracehouse.check.claim import ComparedSizes
from tracehouse.check.flip.flip import ReadEffect
from tracehouse.check.flip.left_state import LeftState
from tracehouse.check.graphs.baked_sizes import BakedSize
from tracehouse.check.graphs.baked_values import BakedValue
from tracehouse.check.graphs.size_tests import SizeTest
from tracehouse.check.instrumentation.value_reads import ValueRead
from tracehouse.check.observe import Observation
from tracehouse.check.probe.causes import Cause
from tracehouse.check.probe.value_ranges import ValueRangeResult
from tracehouse.check.prove.prover import Proof
from tracehouse.check.size_groups import Groups
from tracehouse.contract.contract import Batch
from tracehouse.contract.regions import Region
from tracehouse.differential.case_names import name_counterexample, name_value_read
from tracehouse.differential.comparison import Difference
from tracehouse.eager.call import Call
from tracehouse.findings.finding import Finding
from tracehouse.introspection.user_lines import Line
from tracehouse.torchscript.torch_check import RecordedWarning

_SETTLED = "the proof shows that the model computes the same, whatever the values are that it reads"

LayerName = Literal["observe", "sizes", "prove", "graphs", "flip", "calls", "probe", "batch"]


@dataclass(frozen=True)
class Counterexample:
    """A call that the artifact answers wrongly, the case's name, and all that makes the artifact wrong there."""

    name: str
    call: Call
    cause: Cause


@dataclass(frozen=True)
class SizeState:
    """State that depends on sizes: after a call of other sizes, the eager model answers the example differently.

    `after` is that difference. `changed` is the difference for a copy that answered the example before the other call,
    and None if there is none. Unless `is_settled`, `changed` and `line` are not known yet.
    """

    after: Difference
    is_settled: bool = False
    changed: Difference | None = None
    line: Line | None = None


@dataclass(frozen=True)
class ObserveEvidence:
    """What the eager model reads in Python; `observation` is None if the layer broke off before it."""

    observation: Observation | None = None
    summary: str = ""


@dataclass(frozen=True)
class SizesEvidence:
    """The sizes that may vary; `groups` is None if the layer broke off before it knew them."""

    groups: Groups | None = None
    summary: str = ""


@dataclass(frozen=True)
class GraphsEvidence:
    """Calls of other sizes, and what the trace has baked in, as they and other traces show."""

    calls: Sequence[SizeTest] = ()
    baked_values: Sequence[BakedValue] = ()
    baked_sizes: Sequence[BakedSize] = ()
    size_state: SizeState | None = None
    summary: str = ""


@dataclass(frozen=True)
class FlipEvidence:
    """The effect of each value read, the calls that show harmful ones, and the baked values that follow from these.

    `left` says how the example is answered after calls that read another value; None if as before.
    """

    judged: Sequence[ReadEffect] = ()
    left: LeftState | None = None
    explained: Sequence[BakedValue] = ()
    counterexamples: Sequence[Counterexample] = ()
    summary: str = ""

    @property
    def harmless_lines(self) -> set[Line]:
        """The lines that read values which change nothing in the result."""
        return {read.line for read in self._harmless_reads()}

    @property
    def harmless_numbers(self) -> set[float]:
        """The numbers that such values are, and those that they are compared with."""
        return {number for read in self._harmless_reads() for number in (*read.numbers, *read.comparands.numbers)}

    def _harmless_reads(self) -> Iterator[ValueRead]:
        return (one.read for one in self.judged if one.effect == "harmless")


@dataclass(frozen=True)
class ProveEvidence:
    """The proof; None if there was nothing to prove."""

    proof: Proof | None = None
    settles_reads: bool = False  # at the example's sizes, both compute the same whatever the values are
    summary: str = ""


@dataclass(frozen=True)
class CallsEvidence:
    """The calls at sizes that the proof leaves open or that try it out, and the proven regions which one contradicts.

    If one of the calls differed, `baked_sizes` replaces what the graphs layer found; else it is None. At the sizes of
    `decided_by_values`, a call shows nothing of other values.
    """

    calls: Sequence[SizeTest] = ()
    decided_by_values: Sequence[Mapping[str, int]] = ()
    baked_sizes: Sequence[BakedSize] | None = None
    size_state: SizeState | None = None
    contradicted: Sequence[tuple[Region, ComparedSizes]] = ()
    summary: str = ""


@dataclass(frozen=True)
class ProbeEvidence:
    """The integers that the eager model accepts, and the shrunk counterexamples of the layers before.

    The probes themselves are in the ledger.
    """

    values: ValueRangeResult = field(default_factory=ValueRangeResult)
    counterexamples: Sequence[Counterexample] = ()
    summary: str = ""


@dataclass(frozen=True)
class BatchEvidence:
    """The certificate that rows do not depend on one another; None if there is none."""

    batch: Batch | None = None
    summary: str = ""


LayerEvidence = (
    ObserveEvidence | SizesEvidence | ProveEvidence | GraphsEvidence | FlipEvidence | CallsEvidence | ProbeEvidence
    | BatchEvidence
)  # fmt: skip


@dataclass(frozen=True)
class Evidence:
    """What the layers found out about one method, whose example is `call`; `failures` has the layers that broke off."""

    call: Call
    warned: Sequence[RecordedWarning]
    observe: ObserveEvidence = field(default_factory=ObserveEvidence)
    sizes: SizesEvidence = field(default_factory=SizesEvidence)
    prove: ProveEvidence = field(default_factory=ProveEvidence)
    graphs: GraphsEvidence = field(default_factory=GraphsEvidence)
    flip: FlipEvidence = field(default_factory=FlipEvidence)
    calls: CallsEvidence = field(default_factory=CallsEvidence)
    probe: ProbeEvidence = field(default_factory=ProbeEvidence)
    batch: BatchEvidence = field(default_factory=BatchEvidence)
    failures: Mapping[LayerName, Finding] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """The method's name in the contract."""
        return self.call.method

    @property
    def groups(self) -> Groups | None:
        """The sizes that may vary; None if the sizes layer did not find them."""
        return self.sizes.groups

    @property
    def size_calls(self) -> list[SizeTest]:
        """All calls of other sizes, in the order in which they were made."""
        return [*self.graphs.calls, *self.calls.calls]

    @property
    def compared_sizes(self) -> list[ComparedSizes]:
        """The sizes at which the eager model answered, and whether the artifact agreed."""
        return [ComparedSizes(one.sizes, one.agrees) for one in self.size_calls if one.agrees or one.is_wrong]

    @property
    def baked_sizes(self) -> Sequence[BakedSize]:
        """Every size that is baked into the trace, even if a baked value explains it."""
        return self.graphs.baked_sizes if self.calls.baked_sizes is None else self.calls.baked_sizes

    @property
    def wrong_calls(self) -> list[Call]:
        """Calls of the example's sizes on which the artifact is wrong, with values that were tried at other sizes."""
        return [one.by_values for one in self.baked_sizes if one.by_values is not None]

    @property
    def keeps_a_size(self) -> bool:
        """Whether the eager model keeps state that depends on the first sizes that it sees, so that it has one size."""
        return self.graphs.size_state is not None or self.calls.size_state is not None

    @property
    def counterexamples(self) -> list[Counterexample]:
        """The calls that the artifact answers wrongly, in the order in which they were found."""
        return [*self.flip.counterexamples, *self.probe.counterexamples]

    @cached_property
    def judged(self) -> Sequence[ReadEffect]:
        """The value reads with their effects: what the flip layer found, or the proof, where it shows more."""
        if not self.prove.settles_reads:
            return self.flip.judged
        if not self.flip.judged:
            return [ReadEffect(read, "harmless", _SETTLED) for read in self.observed_reads]
        return [one if one.effect == "harmless" else replace(one, effect="harmless", reason=_SETTLED)
                for one in self.flip.judged]  # fmt: skip

    @property
    def is_settled_at_example_alone(self) -> bool:
        """Whether flips speak against a read of which the proof shows that no value decides at the example's sizes.

        At other sizes values may decide, so that calls show nothing of those that were not tried: only a proof does.
        """
        doubted = (one for one in self.flip.judged if one.effect != "harmless" and one.read.depends_on != "sizes")
        return self.prove.settles_reads and any(doubted)

    @property
    def observed_reads(self) -> Sequence[ValueRead]:
        """The values that Python was seen to read."""
        return self.observe.observation.reads if self.observe.observation is not None else ()

    @property
    def is_wrong(self) -> bool:
        """Whether the artifact is wrong at the example's own sizes."""
        return bool(self.wrong_reads or self.wrong_values)

    @cached_property
    def wrong_reads(self) -> list[ReadEffect]:
        """The reads because of which the artifact is wrong, the first of each line."""
        harmful = [one for one in self.judged if one.effect == "harmful"]
        return [*{one.line: one for one in harmful[::-1]}.values()][::-1]

    @cached_property
    def wrong_values(self) -> list[BakedValue]:
        """The baked values that no wrong read explains, if a call or a second trace confirms them."""
        read = {one.line for one in self.wrong_reads}
        values = [one for one in self.graphs.baked_values if one not in self.flip.explained]
        return [one for one in values if one.line not in read and (one.confirmed or one.cause == "again")]

    @cached_property
    def harmless_lines(self) -> set[Line]:
        """The lines that read values, and of which every read is harmless."""
        judged = [one for one in self.judged if one.read.depends_on != "sizes"]
        return {one.line for one in judged} - {one.line for one in judged if one.effect != "harmless"}

    @property
    def candidates(self) -> list[Line]:
        """The lines that read a value that may make the artifact wrong, those that surely do first."""
        judged = sorted(self.judged, key=lambda one: one.effect != "harmful")
        return [*dict.fromkeys(one.line for one in judged if one.effect != "harmless")]

    def line_of_value(self, value: BakedValue) -> Line | None:
        """The line of a baked value; None if only harmless reads are on it, because then another line is at fault."""
        return None if value.line in self.harmless_lines else value.line

    def lines_beside(self, line: Line) -> list[Line]:
        """The lines that must be mended as well before the counterexample of this line is answered rightly."""
        name = name_counterexample(name_value_read(line.file, line.line))
        shown = next((one for one in self.counterexamples if one.name == name), None)
        return [one for one in shown.cause.lines if one != line] if shown is not None else []

    @cached_property
    def wrong_sizes(self) -> list[BakedSize]:
        """The baked sizes that no wrong read or value explains: inputs of another size have other values too."""
        baked = [one for one in self.baked_sizes if one.by_values is None]
        by_values = [*self.wrong_values, *self.flip.explained]
        values = {*(one.line for one in self.wrong_reads), *(one.line for one in by_values)}
        return [one for one in baked if one.line not in values and (one.line is not None or not values)]
