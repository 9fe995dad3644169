"""The check of one method: its layers in turn, and what they come to: findings, a claim, counterexamples.

Each runs submitted code, which may raise anything: then the layer says so, and the others go on.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tracehouse.check import findings
from tracehouse.check.batch import certificate
from tracehouse.check.calls import call_artifact
from tracehouse.check.claim import Tried, claim, voided
from tracehouse.check.flip import flip
from tracehouse.check.flip.flip import ReadEffect
from tracehouse.check.graphs import baked_sizes, baked_values, find_size_groups
from tracehouse.check.graphs.baked_sizes import BakedSize, SizeTried
from tracehouse.check.graphs.baked_values import BakedValue
from tracehouse.check.inputs.probes import ValueBounds
from tracehouse.check.instrumentation.value_reads import IN_TORCH
from tracehouse.check.observe import Observation, observe
from tracehouse.check.probe.shrink import shrink
from tracehouse.check.probe.value_ranges import ValueRangeResult, find_value_ranges
from tracehouse.check.prove import size_grid
from tracehouse.check.prove.prover import Proof, prove
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.contract import Batch, MethodClaim
from tracehouse.contract.dims import format_sizes
from tracehouse.contract.regions import Region
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call
from tracehouse.findings.trace_check import Finding, Layer
from tracehouse.introspection.user_lines import Line
from tracehouse.spec.trace_spec import WantedSizes
from tracehouse.torch_values.compare import compare
from tracehouse.torchscript.torch_check import Warned

LayerName = Literal["observe", "graphs", "flip", "prove", "probe", "batch"]
Say = Callable[[Layer], object]

# Of what is left of the budget when it begins, a layer takes no more than this, so that each one has its turn.
_SHARES: Mapping[LayerName, float] = {
    "observe": 0.5, "graphs": 0.35, "flip": 0.25, "prove": 0.75, "probe": 0.5, "batch": 0.8,
}  # fmt: skip
# For each counterexample, of the budget and at most.
_SHRINK_SHARE, _SHRINK_S = 0.2, 0.5
_CALL_S = 1.0
_BATCH_MAX = 32
_NOTHING_TO_CLAIM = "nothing: the artifact is wrong at the example's own sizes"
_MODEL_TAKES_ONE_SIZE = "nothing: the model keeps what it first made for the example's sizes"


@dataclass(frozen=True)
class RequestedSizes:
    """What the request says of sizes: which dims vary, and for which sizes the artifact is wanted."""

    dynamic: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sizes: Mapping[str, WantedSizes] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """What the layers of a method came to; the calls are named by what they show."""

    findings: list[Finding]
    warnings: list[Finding]
    claim: MethodClaim | None
    counterexamples: list[tuple[str, Call]]


class MethodCheck:
    """`run` it once, with what probes the values of the example's shapes, which is told the ends of integers."""

    def __init__(
        self, target: Target, warned: Sequence[Warned], wishes: RequestedSizes, budget: Budget, say: Say
    ) -> None:
        self._target = target
        self._warned = warned
        self._wishes = wishes
        self._budget = budget
        self._say = say
        self._findings: list[Finding] = []
        self._counterexamples: list[tuple[str, Call]] = []
        self._observation: Observation | None = None
        self._judged: list[ReadEffect] = []
        self._baked_values: list[BakedValue] = []
        self._groups: Groups | None = None
        self._tried: list[SizeTried] = []
        self._keeps_a_size = False  # in the eager model, which is in the way of other sizes then
        self._baked_sizes: list[BakedSize] = []
        self._proof: Proof | None = None
        self._values = ValueRangeResult()
        self._batch: Batch | None = None

    def run(self, probe: Callable[[ValueBounds], None]) -> Found:
        self._layer("observe", self._observe)
        self._layer("graphs", self._graphs)
        self._layer("flip", self._flip)
        self._layer("prove", self._prove)
        self._layer("probe", lambda budget: self._probe(budget, probe))
        self._layer("batch", self._certify)
        warnings = [self._of_warning(warned) for warned in self._warned]
        return Found(
            [
                *(findings.baked_read(self._target.method, one) for one in self._told_reads),
                *(findings.unsettled_read(self._target.method, line, why) for line, why in self._unsettled(warnings)),
                *(findings.baked_value(self._target.method, one) for one in self._told_values),
                *(findings.baked_size(self._target.method, one) for one in self._told_sizes),
                *self._findings,
            ],
            warnings,
            self._claim(),
            self._counterexamples,
        )

    def _layer(self, name: LayerName, work: Callable[[Budget], str]) -> None:
        budget = self._budget.share(_SHARES[name])
        started = time.monotonic()
        try:
            summary = work(budget)
        except (Exception, TooSlow) as error:  # noqa: BLE001 - submitted code: anything may come out of it
            summary = "it broke off"
            self._findings.append(findings.layer_failed(name, self._target.method, error))
        seconds = round(time.monotonic() - started, 4)
        self._say(
            Layer(name=name, method=self._target.method, seconds=seconds, summary=summary, left_out=budget.left_out())
        )

    def _observe(self, budget: Budget) -> str:
        self._observation = seen = observe(self._target, budget)
        method = self._target.method
        self._findings += [findings.ambient_read(method, read) for read in seen.ambient if read.effect != "harmless"]
        asked = next((one.line for one in seen.contexts if one.name == "torch.jit.is_tracing"), None)
        if seen.traced_otherwise is not None and asked is not None:
            self._findings.append(findings.told_of_tracing(method, seen.traced_otherwise, asked))
        return f"{_counted(len(seen.reads), 'read')} of values, {len(seen.ambient)} of what lies outside the model"

    def _graphs(self, budget: Budget) -> str:
        if self._target.form == "uploaded" and not self._wishes.dynamic:
            return "nothing: an uploaded archive has no model that knows what it should answer at other sizes"
        self._groups = groups = find_size_groups.find(self._target, self._wishes.dynamic, budget.share(0.5))
        self._findings += [
            findings.dynamic_refused(self._target.method, symbol, groups.dims_of(symbol), error)
            for symbol, error in groups.refused.items()
        ]
        self._tried = baked_sizes.compare(self._target, groups, self._wishes.sizes, budget.share(0.5))
        self._baked_values = baked_values.compare_values(self._target, budget)
        self._baked_sizes = baked_sizes.baked(self._target, groups, self._tried, budget)
        self._tell_of_state(self._tried)
        names = ", ".join(groups.symbols) or "none"
        return f"sizes that may vary: {names}; {_counted(len(self._tried), 'call')} of other sizes"

    def _flip(self, budget: Budget) -> str:
        if self._observation is None:
            return "nothing: no read was observed"
        self._judged = flip.judge_reads(self._target, self._observation, budget)
        for one in self._judged:
            if one.counterexample is not None and one.effect == "harmful":
                self._show(f"value at {one.line.file}:{one.line.line}", one.counterexample)
        return _of_reads(self._judged)

    def _prove(self, budget: Budget) -> str:
        if self._groups is None or not self._groups.symbols:
            return "nothing: no size may vary"
        if self._is_wrong:
            return _NOTHING_TO_CLAIM
        if self._keeps_a_size:
            return _MODEL_TAKES_ONE_SIZE
        if self._observation is None or self._observation.hands_memory_out:
            return "nothing: the model hands the memory of tensors out, and symbols have none"
        harmless = {one.line for one in self._judged if one.effect == "harmless"}
        wanted = self._wanted(self._groups)
        for symbol, said in self._wishes.sizes.items():
            if symbol in wanted and len(wanted[symbol]) < len(range(said.low, said.high + 1, said.step)):
                budget.leave_out(f"sizes of {symbol} beyond {wanted[symbol][0]} to {wanted[symbol][-1]}")
        self._proof = proof = prove(self._target, self._groups, wanted, budget, harmless)
        border = [*(one.sizes for one in proof.refuted), *proof.tries]
        border += [side for one in proof.thresholds for side in (one.holds, one.fails)]
        known = [dict(one.sizes) for one in self._tried]
        border += [
            point
            for point in baked_sizes.small(self._groups, known)
            if proof.unproven and not self._baked_sizes and not any(region.contains(point) for region in proof.regions)
        ]
        more = baked_sizes.at(
            self._target, self._groups, [point for point in border if dict(point) not in known], budget
        )
        if any(one.is_wrong for one in more):
            self._baked_sizes = baked_sizes.baked(self._target, self._groups, [*self._tried, *more], budget)
        self._tried += more
        self._tell_of_state(more)
        self._findings += [
            findings.proof_void(self._target.method, region, one)
            for region, one in voided(proof.regions, self._concrete())
        ]
        for left in proof.unproven:
            where = f" at {left.line.file}:{left.line.line}" if left.line else ""
            budget.leave_out(f"not proven from {format_sizes(left.sizes)} on: {left.why}{where}")
        return (
            f"{proof.proven} of {proof.points} sizes proven, {proof.refused} refused by the model; "
            f"{_counted(proof.cases, 'run')}"
        )

    def _tell_of_state(self, tried: Sequence[SizeTried]) -> None:
        """A model that keeps the first sizes that it sees has one size. One whose answer to the example changes by a
        call of another size has hidden state."""
        told = next((one for one in tried if one.after is not None), None)
        if told is None or told.after is None or self._keeps_a_size:
            return
        self._keeps_a_size = True
        target = self._target
        line = target.eager.find_state_line(target.call)
        changed = target.eager.find_aftereffect(told.call, target.call, tolerance=target.tolerance, within_s=_CALL_S)
        self._findings.append(
            findings.keeps_a_size(target.call, told.after, line)
            if changed is None
            else findings.hidden_state(target.call, changed, line)
        )

    def _probe(self, budget: Budget, probe: Callable[[ValueBounds], None]) -> str:
        self._values = find_value_ranges(self._target, self._groups, budget)
        for name, call in self._values.differing:
            self._show(name, call)
        probe(self._values.ends)
        for baked in self._told_values:
            if baked.confirmed:
                self._show("value", baked.call)
        for one in self._told_sizes:
            self._show(f"size of {', '.join(one.symbols)}", one.shown.call)
        ends = f"; the ends of the integers in {', '.join(self._values.ranges)}" if self._values.ranges else ""
        return f"other values at the example's sizes{ends}"

    def _certify(self, budget: Budget) -> str:
        if self._groups is None:
            return "nothing: no size may vary"
        if self._is_wrong:
            return _NOTHING_TO_CLAIM
        if self._keeps_a_size:
            return _MODEL_TAKES_ONE_SIZE
        certified = certificate.certify(self._target, self._groups, _BATCH_MAX, budget, ends=self._values.ends)
        if not isinstance(certified, Batch):
            return f"one by one: {certified.reason}"
        self._batch = certified
        return f"up to {certified.up_to} rows along {certified.symbol} together"

    def _wanted(self, groups: Groups) -> dict[str, range]:
        """Of a size that is baked, the example's alone."""
        baked = {symbol for one in self._baked_sizes if not one.right for symbol in one.symbols}
        said = {symbol: range(one.low, one.high + 1, one.step) for symbol, one in self._wishes.sizes.items()}
        wanted = {symbol: said.get(symbol, sizes) for symbol, sizes in size_grid.default(groups).items()}
        wanted |= {symbol: range(groups.example[symbol], groups.example[symbol] + 1) for symbol in baked}
        return size_grid.bounded(wanted, groups.example)

    def _concrete(self) -> list[Tried]:
        return [Tried(one.sizes, one.agrees) for one in self._tried if one.agrees or one.is_wrong]

    def _claim(self) -> MethodClaim | None:
        """None where it is wrong at the example's own sizes: what came out right at others was luck. And where the
        model itself answers as the first call's sizes have it."""
        if self._groups is None or self._is_wrong or self._keeps_a_size:
            return None
        proven = [*self._proof.regions, *self._sampled(self._proof)] if self._proof is not None else []
        return claim(self._groups, self._concrete(), proven, values=self._values.ranges, batch=self._batch)

    def _sampled(self, proof: Proof) -> list[Region]:
        """What is proven of one way through the model counts where inputs of both ways were tried, and agreed."""
        assert self._observation is not None  # what is proven was observed
        aside = [
            one
            for one in self._judged
            if one.read.site not in self._observation.recorded and one.read.depends_on == "values"
        ]
        return proof.alike if aside and all(one.effect == "harmless" for one in aside) else []

    def _show(self, name: str, call: Call) -> None:
        """The smallest call that shows the same."""
        budget = Budget(min(_SHRINK_S, self._budget.left_s * _SHRINK_SHARE))
        smallest = shrink(call, self._groups, self._differs, budget) if self._differs(call) else call
        self._counterexamples.append((f"counterexample: {name}", smallest))

    def _differs(self, call: Call) -> bool:
        """Whether eager answers, and the artifact otherwise or not at all."""
        target = self._target
        try:
            eager = target.eager.answer(call, within_s=_CALL_S)
        except (Exception, TooSlow):  # noqa: BLE001 - submitted code: anything may come out of it
            return False
        try:
            artifact = call_artifact(target.artifact, call, target.seed)
        except Exception:  # noqa: BLE001 - TorchScript raises of every kind
            return True
        return not compare(eager.outputs, artifact.outputs, target.tolerance).agrees

    @property
    def _is_wrong(self) -> bool:
        """At the example's own sizes."""
        return bool(self._told_reads or self._told_values)

    @property
    def _told_reads(self) -> list[ReadEffect]:
        """Those that the artifact is wrong by, the first of each line."""
        harmful = [one for one in self._judged if one.effect == "harmful"]
        return [*{one.line: one for one in harmful[::-1]}.values()][::-1]

    def _unsettled(self, warnings: Sequence[Finding]) -> list[tuple[Line, str]]:
        """Lines that read a value, of which it is not known whether the trace is wrong by it: with the reason."""
        found = {one.line: one.reason for one in self._judged if one.effect == "unknown" and self._is_of_values(one)}
        for warned, warning in zip(self._warned, warnings, strict=True):
            if warned.reads_value and warning.effect == "unknown" and warned.line is not None:
                found.setdefault(warned.line, warning.reason or "")
        told = [*(one.line for one in self._told_reads), *(one.line for one in self._told_values)]
        return [(line, why) for line, why in found.items() if line not in told]

    def _is_of_values(self, one: ReadEffect) -> bool:
        """For certain, and read while it is traced. What an operator of torch or an index reads, is likely recorded."""
        seen, read = self._observation, one.read
        is_read = seen is not None and seen.in_torch and read.site in seen.recorded
        return is_read and read.depends_on == "values" and read.site.kind not in (IN_TORCH, "__index__")

    @property
    def _told_values(self) -> list[BakedValue]:
        """Those that no read explains."""
        read = {one.line for one in self._told_reads}
        return [one for one in self._baked_values if one.line not in read and (one.confirmed or one.cause == "again")]

    @property
    def _told_sizes(self) -> list[BakedSize]:
        """Those that no value explains: inputs of another size have other values, too."""
        values = {*(one.line for one in self._told_reads), *(one.line for one in self._told_values)}
        return [one for one in self._baked_sizes if one.line not in values and (one.line is not None or not values)]

    def _of_warning(self, warned: Warned) -> Finding:
        partings = [one.parting for one in self._told_values]
        effect, reason, judged = flip.judge_warning(warned, self._judged, partings)
        if effect == "harmless" and warned.line in {one.line for one in self._told_sizes}:
            effect, reason = "harmful", "the size that is read here is baked in"
        confirmed = judged.confirmed if judged is not None else None
        return findings.tracer_warning(warned, confirmed=confirmed, effect=effect, reason=reason)


def _of_reads(judged: Sequence[ReadEffect]) -> str:
    """How many there are of each effect; those of sizes come out by what becomes of other sizes."""
    of_sizes = [one for one in judged if one.read.depends_on == "sizes" and one.effect == "unknown"]
    effects = [one.effect for one in judged if one not in of_sizes]
    counts = [(effects.count(effect), effect) for effect in ("harmless", "harmful", "unknown")]
    told = _counted(len(effects), "read") + ": " + ", ".join(f"{count} {effect}" for count, effect in counts if count)
    beside = f"{_counted(len(of_sizes), 'read')} of sizes, which calls of other sizes judge"
    return "; ".join([told] * bool(effects) + [beside] * bool(of_sizes)) or "no reads"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
