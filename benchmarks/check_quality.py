"""How good the trace check is, on the models of tests/corpus: those that trace and answer wrongly, and the right ones.

Ours is run as the service runs it, in its children, and judged by what a user sees: verdict, findings and contract.

- A wrong model is found if it is traced, and is rejected, or if the contract takes none of the inputs that its artifact
  answers wrongly. Its line is right if a finding that speaks against the artifact names one that the source marks.
- A right model that is not verified, of which a finding speaks against the artifact, or whose contract refuses its own
  example, is a false alarm. Dims that a user expects to be open, and that the contract has fixed, are counted apart.

Beside it stand torch.jit.trace with its own check, the same with all inputs as its check inputs, and torch.export with
every dim automatic, which is wrong where it answers wrongly, and refuses where it raises.

The figures are given at several budgets beside each other. Only the models whose check may have been short of time at
a smaller budget are checked again at a larger one.

    python benchmarks/check_quality.py [--only NAME]... [--jobs 2] [--ours] [--budget SECONDS]... [--json FILE]
"""

import argparse
import itertools
import json
import random
import statistics
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.torch_verdicts import TorchVerdict, judge_by_torch  # noqa: E402
from benchmarks.trace_requests import Done, requests, takes  # noqa: E402
from tests.corpus import specimen  # noqa: E402
from tests.corpus.specimen import Call, Specimen, called, question, same, specimens  # noqa: E402
from tracehouse.contract.contract import MethodContract  # noqa: E402
from tracehouse.contract.structure import has_only_real_tensors  # noqa: E402
from tracehouse.differential.named_budgets import BUDGETS  # noqa: E402
from tracehouse.findings.finding import Finding  # noqa: E402
from tracehouse.findings.kinds import Kind, speaks_against  # noqa: E402
from tracehouse.findings.trace_check import TraceCheck  # noqa: E402
from tracehouse.findings.verdict import Verdict  # noqa: E402
from tracehouse.torch_values import returned  # noqa: E402

# What a small model gets by default. At 120 s, what is found does not hang on how fast the machine is.
BUDGETS_S = (BUDGETS["normal"].least_s, 120.0)
# No part of a layer gets less of what is left of the budget when the layer begins (tracehouse/check/pipeline.py): a
# check whose layers each took less, and in which nothing was cut, was not short of time.
UNHURRIED_SHARE = 1 / 8
# The sizes of a symbol that the shares of a contract are counted over, and how many combinations of several symbols.
SIZES = range(65)
COMBINATIONS = 2000


@dataclass
class Ours:
    """What the service said of a model, and whether that is right."""

    outcome: str  # found or missed; right, closed or false alarm
    why: str
    verdict: str
    line: bool | None = None  # null: no line is needed, for the contract's form refuses what is wrong
    lines: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    proven: float | None = None  # the share of the sizes that the contract takes; null: none is open
    closed: list[str] = field(default_factory=list)
    check_s: float = 0.0
    total_s: float = 0.0
    layers_s: list[float] = field(default_factory=list)  # of the budget
    is_cut: bool = False


def main() -> None:
    options = _options()
    chosen = [one for side in ("wrong", "right") for one in specimens(side)]
    chosen = [one for one in chosen if not options.only or one.name in options.only]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    by_budget = _judge_at_each(chosen, sorted(options.budget or BUDGETS_S), options.jobs)
    theirs = {} if options.ours else dict(zip((one.name for one in chosen), judge_by_torch(chosen), strict=True))
    for budget_s, ours in by_budget.items():
        print(f"\nwith a budget of {budget_s:g} s")
        for side in ("wrong", "right"):
            names = [one.name for one in chosen if one.path.parent.name == side]
            _print_table(side, names, ours, theirs)
    summaries = {budget_s: summarise(chosen, ours, theirs) for budget_s, ours in by_budget.items()}
    _print_beside_each_other(summaries)
    if options.json:
        figures = {
            f"{budget_s:g} s": {
                "summary": summaries[budget_s],
                "models": {
                    name: {"ours": asdict(one), "torch": theirs and asdict(theirs[name])} for name, one in ours.items()
                },
            }
            for budget_s, ours in by_budget.items()
        }
        options.json.write_text(json.dumps(figures, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How good the trace check is, on the models of tests/corpus.")
    parser.add_argument("--only", action="append", metavar="NAME", help="this model alone; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="trace requests at a time")
    parser.add_argument(
        "--budget", type=float, action="append", metavar="SECONDS", help="check.budget_s of each; may be repeated"
    )
    parser.add_argument("--ours", action="store_true", help="leave torch's own means out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return parser.parse_args()


def _judge_at_each(chosen: Sequence[Specimen], budgets_s: Sequence[float], jobs: int) -> dict[float, dict[str, Ours]]:
    """Judge every model at the first budget, and at each larger one those that may have been short of time before."""
    by_budget: dict[float, dict[str, Ours]] = {}
    ours: dict[str, Ours] = {}
    smaller_s = 0.0
    for budget_s in budgets_s:
        again = [one for one in chosen if one.name not in ours or was_short_of_time(ours[one.name], smaller_s)]
        ours = ours | dict(zip((one.name for one in again), _judge_all(again, jobs, budget_s), strict=True))
        by_budget[budget_s], smaller_s = ours, budget_s
    return by_budget


def was_short_of_time(one: Ours, budget_s: float) -> bool:
    """Whether a check of a larger budget may say something else."""
    begun_s = itertools.accumulate(one.layers_s, initial=0.0)
    hurried = any(
        layer_s > (budget_s - begun) * UNHURRIED_SHARE for begun, layer_s in zip(begun_s, one.layers_s, strict=False)
    )
    return one.is_cut or one.verdict == "failed" or hurried


def is_good(one: Ours) -> bool:
    """Whether nothing is left to wish for."""
    return one.outcome in ("found", "right") and one.line is not False


def _judge_all(chosen: Sequence[Specimen], jobs: int, budget_s: float) -> list[Ours]:
    """In their order, each by a trace request of its own."""
    check = {"budget_s": budget_s}
    with requests() as done, ThreadPoolExecutor(jobs) as pool:
        traced = [*pool.map(lambda one: done.do({**one.submission(), "check": check}), chosen)]
    return [judge(one, each) for one, each in zip(chosen, traced, strict=True)]


def judge(one: Specimen, done: Done) -> Ours:
    """Whether what the service said of a model is right, and in which line."""
    is_wrong = one.path.parent.name == "wrong"
    if done.artifact is None:
        why = f"{done.failure.slug}: {done.failure.detail[:200]}" if done.failure else "it has no artifact"
        return Ours("missed" if is_wrong else "false alarm", why, "failed", total_s=done.seconds)
    check, contract = done.artifact.check, done.artifact.contract.method("forward")
    judged = (_judge_wrong if is_wrong else _judge_right)(one, done, check, contract)
    judged.proven = proven(contract)
    judged.check_s = sum(layer.seconds for layer in check.layers)
    judged.layers_s = [layer.budget_s or 0.0 for layer in check.layers]
    judged.is_cut = any(layer.is_cut for layer in check.layers)
    judged.total_s = done.seconds
    return judged


def _judge_wrong(one: Specimen, done: Done, check: TraceCheck, contract: MethodContract) -> Ours:
    # What keeps a size is served at that size alone, which speaks against a wrong model and not against a right one.
    against = [each for each in check.findings if each.kind == Kind.KEEPS_A_SIZE or _against([each])]
    lines = [finding.line for finding in against if finding.line is not None and _is_of(finding, one)]
    told = {
        "verdict": check.verdict.value,
        "lines": lines,
        "kinds": [finding.kind for finding in against],
        "line": bool(one.faults.intersection(lines)),
    }
    if check.verdict is Verdict.REJECTED:
        return Ours("found", "rejected", **told)
    if one.kind == "state" and one.others and not any(takes(contract, question(call)) for call in one.others):
        return Ours("found", "refused by the contract", **told)
    if one.is_wrong_in_a_row:
        return Ours("missed", "it is served, and calls in a row go wrong", **told)
    wrong = specimen.wrong_on(one)
    answered = [call for call in wrong if takes(contract, question(call))]
    if any(not same(called(one.fresh(), call), called(served(done, contract), call)) for call in answered):
        return Ours("missed", "the contract takes inputs that are answered wrongly", **told)
    if all(_is_of_another_form(one, call) for call in wrong) or answered:
        told["line"] = told["line"] or None
    return Ours("found", "answered rightly" if answered else "refused by the contract", **told)


def served(done: Done, contract: MethodContract) -> Callable[..., Any]:
    """The artifact, whose answers have the constants that the contract keeps beside its tensors."""
    loaded = done.loaded()
    if has_only_real_tensors(contract.returns):
        return loaded
    return lambda *args, **kwargs: returned.restore(contract.returns, returned.open_containers(loaded(*args, **kwargs)))


def _judge_right(one: Specimen, done: Done, check: TraceCheck, contract: MethodContract) -> Ours:
    against = _against(check.findings)
    shapes = {spec.name: spec.shape for spec in contract.inputs}
    told = {
        "verdict": check.verdict.value,
        "lines": [finding.line for finding in against if finding.line is not None],
        "kinds": [finding.kind for finding in against],
        "closed": [f"{name}[{dim}]" for name, dim in sorted(one.open_dims) if not isinstance(shapes[name][dim], str)],
    }
    if against or check.verdict is not Verdict.VERIFIED:
        return Ours("false alarm", "; ".join(f"{each.kind}: {each.detail}" for each in against)[:300], **told)
    if not takes(contract, question(one.example)):
        return Ours("false alarm", "the contract refuses the example", **told)
    taken = [call for call in one.others if takes(contract, question(call))]
    if any(not same(called(one.fresh(), call), called(served(done, contract), call)) for call in taken):
        return Ours("false alarm", "the artifact itself is wrong", **told)
    if told["closed"] or len(taken) < len(one.others):
        return Ours("closed", f"{len(one.others) - len(taken)} of {len(one.others)} inputs refused", **told)
    return Ours("right", "", **told)


def _against(findings: Iterable[Finding]) -> list[Finding]:
    return [each for each in findings if speaks_against(each.kind) or each.effect == "harmful"]


def _is_of(finding: Finding, one: Specimen) -> bool:
    return finding.file is not None and Path(finding.file).name == one.path.name


def _is_of_another_form(one: Specimen, call: Call) -> bool:
    """Whether its structure, datatypes or ranks are not the example's, which no contract leaves open."""
    example, other = one.leaves(one.example), one.leaves(call)
    forms = [{name: (leaf.dtype, leaf.dim()) for name, leaf in named.items()} for named in (example, other)]
    return forms[0] != forms[1]


def proven(contract: MethodContract) -> float | None:
    """Of the sizes up to 64 that it takes, the share that is proven; the others are tested, or the example's."""
    symbols = sorted(contract.symbols)
    if not symbols:
        return None
    taken = [
        {region.basis for region in contract.regions if region.contains(dict(zip(symbols, sizes, strict=True)))}
        for sizes in _combinations(len(symbols))
    ]
    taken = [known for known in taken if known]
    return sum("proven" in known for known in taken) / len(taken) if taken else None


def _combinations(symbols: int) -> Iterable[tuple[int, ...]]:
    if len(SIZES) ** symbols <= 5 * COMBINATIONS:
        return itertools.product(SIZES, repeat=symbols)
    drawn = random.Random(0)
    return [tuple(drawn.choices(SIZES, k=symbols)) for _ in range(COMBINATIONS)]


def _print_table(side: str, names: Sequence[str], ours: dict[str, Ours], theirs: dict[str, TorchVerdict]) -> None:
    if not names:
        return
    heads = ("outcome", "verdict", "line", "proven", "check s", "all s")
    print(f"\n{side:<36} " + " ".join(f"{head:>11}" for head in heads), end="")
    print("   torch: trace  check_inputs  export" if theirs else "")
    for name in names:
        one = ours[name]
        line = "" if one.line is None else "right" if one.line else "not"
        proven = "" if one.proven is None else f"{one.proven:.0%}"
        cells = (one.outcome, one.verdict, line, proven, f"{one.check_s:.2f}", f"{one.total_s:.2f}")
        print(f"{name:<36} " + " ".join(f"{cell:>11}" for cell in cells), end="")
        other = theirs.get(name)
        print(f"   {other.check:>12} {other.check_inputs:>13} {other.export:>7}" if other else "", end="")
        print(f"   {one.why}" if one.outcome in ("missed", "false alarm", "closed") else "")


def _print_beside_each_other(summaries: dict[float, dict[str, Any]]) -> None:
    print(f"\n{'budget, s':<56} " + " ".join(f"{budget_s:>9g}" for budget_s in summaries))
    for name in next(iter(summaries.values())):
        figures = [str(summary[name]) for summary in summaries.values()]
        # What torch's own means say does not hang on our budget.
        print(f"{name:<56} " + (figures[0] if name.startswith("torch") else " ".join(f"{one:>9}" for one in figures)))


def summarise(
    chosen: Sequence[Specimen], ours: Mapping[str, Ours], theirs: Mapping[str, TorchVerdict]
) -> dict[str, Any]:
    """The figures: how many were found, and so on."""
    wrong = [one.name for one in chosen if one.path.parent.name == "wrong"]
    right = [one.name for one in chosen if one.path.parent.name == "right"]
    found = [ours[name] for name in wrong if ours[name].outcome == "found"]
    shares = [one.proven for one in ours.values() if one.proven is not None]
    summary: dict[str, Any] = {
        "wrong": len(wrong),
        "found": len(found),
        "lines_needed": sum(one.line is not None for one in found),
        "lines_right": sum(one.line is True for one in found),
        "right": len(right),
        "false_alarms": sum(ours[name].outcome == "false alarm" for name in right),
        "closed_though_right": sum(ours[name].outcome == "closed" for name in right),
        "dims_closed_though_right": sum(len(ours[name].closed) for name in right),
        "proven_share_of_open_contracts": round(statistics.mean(shares), 3) if shares else None,
        "wholly_proven_contracts": sum(share == 1 for share in shares),
        "open_contracts": len(shares),
        **dict(_seconds("check", [one.check_s for one in ours.values()])),
        **dict(_seconds("request", [one.total_s for one in ours.values()])),
    }
    for side, names in (("wrong", wrong), ("right", right)) if theirs else ():
        summary |= dict(_of_torch(side, [theirs[name] for name in names]))
    return summary


def _seconds(what: str, seconds: Sequence[float]) -> Iterator[tuple[str, float]]:
    if seconds:
        yield f"{what}_s_median", round(statistics.median(seconds), 3)
        yield f"{what}_s_total", round(sum(seconds), 1)


def _of_torch(side: str, said: Sequence[TorchVerdict]) -> Iterator[tuple[str, Any]]:
    yield f"torch.jit.trace, {side}", dict(Counter(one.check for one in said))
    if side == "wrong":
        yield "torch.jit.trace, wrong, a warning names the line", sum(one.check_line for one in said)
    yield f"torch.jit.trace with check_inputs, {side}", dict(Counter(one.check_inputs for one in said))
    yield f"torch.export, {side}", dict(Counter(one.export for one in said))
    yield f"torch.jit.trace with its check, {side}, s median", round(statistics.median(one.trace_s for one in said), 3)


if __name__ == "__main__":
    main()
