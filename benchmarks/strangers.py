"""The check on models that people deploy, from forty-odd packages, with ten legitimate inputs each.

Each model is checked with `tracehouse.check` on its example alone, in a process of its own, with nothing declared. Then
each of its ten inputs is given to the eager model, to a plain torch.jit.trace and, if the contract accepts it, to the
artifact. Of each input we say:

- answered: the contract accepts it, and the artifact gives the eager model's answer;
- wrong: the contract accepts it, and the artifact gives another answer or raises;
- refused though right: the contract refuses it, and the plain trace gives the eager model's answer.

A model is open if all of its ten inputs are answered. A false rejection is a rejected model whose plain trace is right
on all of its inputs. Make an environment of its own for the packages, for they are no part of Tracehouse:

    pip install --no-deps -r benchmarks/strangers-requirements.txt
    nice python benchmarks/strangers.py [--only NAME]... [--jobs 1] [--json benchmarks/strangers-figures.json]
"""

import argparse
import contextlib
import copy
import json
import math
import multiprocessing
import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from torch.utils import _pytree  # noqa: E402

from benchmarks.stranger_models import STRANGERS, Call, Stranger  # noqa: E402
from tracehouse import check  # noqa: E402
from tracehouse.contract.contract import MethodContract  # noqa: E402
from tracehouse.eager.call import bind  # noqa: E402
from tracehouse.errors import ContractViolation  # noqa: E402
from tracehouse.findings.kinds import speaks_against  # noqa: E402
from tracehouse.findings.verdict import Verdict  # noqa: E402
from tracehouse.torch_values.tensors import pack  # noqa: E402

# Of the largest number of each tensor. Far above rounding in these models, far below what a baked size or branch does.
TOLERANCE = 1e-3
LIMIT_S = 600.0
CHARACTERS = 200


@dataclass
class Row:
    """What came of one model. `refused` has why each input that the plain trace answers rightly was refused."""

    name: str
    package: str
    verdict: str = "failed"
    inputs: int = 0
    right: int = 0  # inputs that the plain trace answers rightly
    answered: int = 0
    answered_of_right: int = 0
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    against: list[str] = field(default_factory=list)  # the findings that speak against the artifact
    left_out: list[str] = field(default_factory=list)  # what the budget cut
    note: str = ""
    seconds: float = 0.0

    @property
    def is_open(self) -> bool:
        return self.answered == self.inputs > 0

    @property
    def is_false_rejection(self) -> bool:
        return self.verdict in ("rejected", "failed") and self.right == self.inputs > 0


def main() -> None:
    options = _options()
    chosen = [one for one in STRANGERS if not options.only or one.name in options.only]
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = {row.name: _print_row(row) for row in pool.map(_judge_apart, chosen)}
    if options.json:
        rows = {**_kept_rows(options.json), **rows}
    figures = summarise([rows[one.name] for one in STRANGERS if one.name in rows])
    print("\n" + "\n".join(f"{what}: {figure}" for what, figure in figures.items()))
    if options.json:
        models = {one.name: asdict(rows[one.name]) for one in STRANGERS if one.name in rows}
        options.json.write_text(json.dumps({"summary": figures, "models": models}, indent=1) + "\n")


def _kept_rows(file: Path) -> dict[str, "Row"]:
    """Return the rows of an earlier run, whose models need not be checked again."""
    if not file.exists():
        return {}
    return {name: Row(**row) for name, row in json.loads(file.read_text())["models"].items()}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The check on models that people deploy.")
    parser.add_argument("--only", action="append", metavar="NAME", help="this model alone; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="models at a time")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures there, beside those of other models"
    )
    return parser.parse_args()


def _judge_apart(one: Stranger) -> Row:
    """Judge a model in a process of its own, because tracing may crash it."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_judge_into, args=(theirs, one.name))
    process.start()
    theirs.close()
    try:
        ended = mine.recv() if mine.poll(LIMIT_S) else f"it took over {LIMIT_S:g} s"
    except EOFError:
        ended = "its process crashed"
    process.kill()
    process.join()
    return ended if isinstance(ended, Row) else Row(one.name, one.package, note=ended)


def _judge_into(pipe: Any, name: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    one = next(one for one in STRANGERS if one.name == name)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        pipe.send(judge(one))


def judge(one: Stranger) -> Row:
    """Check a model on its example, and hold what the contract and the artifact say of its inputs against the truth."""
    torch.manual_seed(0)
    module, (example, *given) = one.build()
    module.eval()
    row = Row(one.name, one.package, inputs=len(given))
    eager = [_ask(copy.deepcopy(module), call) for call in given]
    plain = _trace(module, example)
    is_right = [
        plain is not None and _agree(answer, _ask(plain, call)) for answer, call in zip(eager, given, strict=True)
    ]
    row.right = sum(is_right)
    began = time.perf_counter()
    try:
        report = check(module, example, strict=False)
    except Exception as error:  # noqa: BLE001 - a check that fails is a figure too
        row.note = _shorten(f"{type(error).__name__}: {error}")
        return row
    row.seconds = round(time.perf_counter() - began, 1)
    row.verdict = report.verdict.value
    row.against = [_shorten(f"{each.kind}: {each.detail}") for each in report.findings
                   if speaks_against(each.kind) or each.effect == "harmful"]  # fmt: skip
    row.left_out = [_shorten(what) for layer in report.check.layers for what in layer.left_out]
    served = report.verdict is not Verdict.REJECTED
    for call, answer, right in zip(given, eager, is_right, strict=True):
        refusal = _refusal(report.contract.method("forward"), module, call) if served else "the model is rejected"
        if refusal is None and not _agree(answer, _ask(report.artifact, call)):
            row.wrong.append(str([list(tensor.shape) for tensor in call]))
        elif refusal is None:
            row.answered += 1
            row.answered_of_right += right
        elif right:
            row.refused.append(_shorten(refusal))
    return row


def _shorten(text: str) -> str:
    """Return the text's beginning, with the files of this checkout named from its root: the figures are kept in it."""
    return text.replace(f"{ROOT}/", "")[:CHARACTERS]


def _refusal(contract: MethodContract, module: torch.nn.Module, call: Call) -> str | None:
    """Return why the contract refuses a call, as the inference routes decide it; None if it accepts the call."""
    tensors = bind(module, "forward", "forward", call, {}).tensors
    try:
        contract.accept(pack(tensors))
    except ContractViolation as error:
        return error.detail
    return None


def _trace(module: torch.nn.Module, example: Call) -> Any:
    try:
        return torch.jit.trace(copy.deepcopy(module), example, check_trace=False, strict=False)
    except Exception:  # noqa: BLE001 - whatever a trace of these models raises
        return None


def _ask(module: Any, call: Call) -> list[Any] | None:
    """Return the leaves of the answer; None if the module raises."""
    torch.manual_seed(0)
    try:
        with torch.no_grad():
            return _pytree.tree_leaves(module(*(tensor.clone() for tensor in call)))
    except Exception:  # noqa: BLE001 - anything may come out of a model
        return None


def _agree(expected: list[Any] | None, actual: list[Any] | None) -> bool:
    if expected is None or actual is None or len(expected) != len(actual):
        return False
    return all(_alike(one, other) for one, other in zip(expected, actual, strict=True))


def _alike(expected: Any, actual: Any) -> bool:
    if not isinstance(expected, torch.Tensor):
        return bool(expected == actual)
    if not isinstance(actual, torch.Tensor) or (expected.shape, expected.dtype) != (actual.shape, actual.dtype):
        return False
    if not expected.is_floating_point():
        return torch.equal(expected, actual)
    finite = expected[expected.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    return torch.allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE * largest, equal_nan=True)


def _print_row(row: Row) -> Row:
    print(
        f"{row.name:<26} {row.verdict:<15} answered {row.answered:>2}/{row.inputs:<2} plain trace right "
        f"{row.right:>2}  refused though right {len(row.refused):>2}  wrong {len(row.wrong):>2} {row.seconds:>7.1f} s  "
        f"{'FALSE REJECTION ' * row.is_false_rejection}{'WRONG ' * bool(row.wrong)}{row.note}",
        flush=True,
    )
    for what in dict.fromkeys([*row.against, *row.refused]):
        print(f"    {what}", flush=True)
    return row


def summarise(rows: list[Row]) -> dict[str, Any]:
    """Return the sums over all models."""
    right = sum(row.right for row in rows)
    share = sum(row.answered_of_right for row in rows) / right if right else math.nan
    opened = sum(row.is_open for row in rows)
    traceable = [row for row in rows if row.right == row.inputs > 0]
    open_of_traceable = sum(row.is_open for row in traceable)
    return {
        "models": len(rows),
        "legitimate inputs": sum(row.inputs for row in rows),
        "answered rightly by a plain trace": right,
        "of these answered by us": f"{sum(row.answered_of_right for row in rows)} ({share:.1%})",
        "models open over all their inputs": f"{opened} ({opened / len(rows):.1%})",
        "of those that a plain trace answers rightly on all inputs": f"{open_of_traceable} of {len(traceable)}",
        "failed": [row.name for row in rows if row.verdict == "failed"],
        "false rejections": [row.name for row in rows if row.is_false_rejection],
        "inputs answered wrongly inside the contract": sum(len(row.wrong) for row in rows),
        "seconds": round(sum(row.seconds for row in rows), 1),
    }


if __name__ == "__main__":
    main()
