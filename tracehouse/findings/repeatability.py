"""Findings about what an answer may depend on besides the inputs: random numbers, state, the mode, the clock."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from tracehouse.differential.comparison import Difference
from tracehouse.findings.finding import Effect, Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.remedies import (
    CONTROL_RANDOMNESS,
    DRAW_OUTSIDE,
    DRAW_WITH_TORCH,
    KEEP_STATISTICS,
    MAKE_IT_AN_INPUT,
    PASS_STATE,
    PASS_WEIGHTS,
    SEND_A_SEED,
    SORT_THE_SET,
    WRITE_WITH_TORCH,
)
from tracehouse.findings.source_lines import STATE_READ, UNKNOWN_LINE, SourceLine


def nondeterministic(method: str, difference: Difference, *, line: SourceLine = UNKNOWN_LINE) -> Finding:
    """Return the finding that the eager model answers differently with other random numbers of Python or NumPy."""
    return Finding(
        kind=Kind.NONDETERMINISTIC,
        detail=f"{method} draws random numbers in Python or NumPy, which a trace keeps, and answers the same inputs "
        f"differently each time: {difference.what}",
        confirmed=True,
        evidence=_two_answers(method, difference),
        remedy=DRAW_WITH_TORCH,
        **line,
    )


def stochastic(
    method: str, difference: Difference, *, operator: str | None = None, line: SourceLine = UNKNOWN_LINE
) -> Finding:
    """Return the finding that the answers are random, because torch draws numbers.

    `operator` is the node of the graph that draws first.
    """
    return Finding(
        kind=Kind.STOCHASTIC,
        detail=f"{method} draws random numbers, and answers the same inputs differently each time: {difference.what}",
        confirmed=True,
        evidence=_two_answers(method, difference) | {"operator": operator},
        remedy=SEND_A_SEED,
        **line,
    )


def hidden_state(method: str, difference: Difference, line: SourceLine = UNKNOWN_LINE) -> Finding:
    """Return the finding that the eager model answers the same inputs differently after other calls."""
    return Finding(
        kind=Kind.HIDDEN_STATE,
        detail=f"{method} answers the same inputs differently after other calls: {difference.what}",
        confirmed=True,
        evidence=_two_answers(method, difference) | ({"line_known_by": STATE_READ} if line else {}),
        remedy=PASS_STATE,
        **line,
    )


def later_call_stopped(method: str, stopped: str, line: SourceLine = UNKNOWN_LINE) -> Finding:
    """Return the finding that the eager model answered its example, and a later call on it had to be stopped.

    `stopped` says after how long.
    """
    return Finding(
        kind=Kind.HIDDEN_STATE,
        detail=f"{method} answers its example, and a later call on the same inputs was stopped: {stopped}",
        evidence={"method": method},
        remedy=f"{PASS_STATE}; if the model is only slow, raise budget_s",
        **line,
    )


def state_carried(method: str, names: Sequence[str], line: SourceLine) -> Finding:
    """Return the finding that each call changes state that the next call reads, though no answer has shown it yet.

    `names` says what it changes.
    """
    return Finding(
        kind=Kind.HIDDEN_STATE,
        detail=f"each call of {method} changes {', '.join(names)}, which the next call reads; no answer has shown it "
        "yet, and a later one may",
        evidence={"method": method, "state": [*names]},
        remedy=KEEP_STATISTICS if all(map(_is_running_statistic, names)) else PASS_STATE,
        **line,
    )


def outside_write(method: str, what: str, line: SourceLine) -> Finding:
    """Return the finding that each call changes `what` outside of the model, though no answer has shown it yet."""
    return Finding(
        kind=Kind.HIDDEN_STATE,
        detail=f"each call of {method} changes {what} outside of the model, where the next call can read it; the "
        "artifact leaves that out, and a later answer may depend on it",
        evidence={"method": method, "state": [what]},
        remedy=PASS_STATE,
        **line,
    )


def _is_running_statistic(name: str) -> bool:
    """Whether a buffer has the name of one that torch's normalisations change in train mode."""
    return name.rpartition(".")[2] in ("running_mean", "running_var", "num_batches_tracked")


def generator_kept(method: str, line: SourceLine) -> Finding:
    """Return the finding that the artifact keeps a torch.Generator, whose numbers go on from call to call."""
    return Finding(
        kind=Kind.HIDDEN_STATE,
        detail=f"the artifact of {method} keeps a torch.Generator, and draws the next numbers from it at each call: "
        "what one client is answered depends on how many calls came before",
        confirmed=True,
        evidence={"method": method, "state": ["torch.Generator"]},
        remedy=DRAW_OUTSIDE,
        **line,
    )


def state_written(method: str, names: Sequence[str], readers: Sequence[str], line: SourceLine) -> Finding:
    """Return the finding that a scripted method writes the state `names`, which the methods `readers` read."""
    return Finding(
        kind=Kind.HIDDEN_STATE,
        detail=f"{method} writes {', '.join(names)}, and {', '.join(readers)} reads it: one client's call may change "
        "what another client is answered",
        evidence={"method": method, "state": [*names], "read_by": [*readers]},
        remedy=PASS_STATE,
        **line,
    )


def parameters_written(method: str, names: Sequence[str]) -> Finding:
    """Return the finding that a call writes to the parameters `names` where torch does not see it."""
    return Finding(
        kind=Kind.HIDDEN_STATE,
        detail=f"a call of {method} writes to {', '.join(names)} without an operator of torch, through `.data` or "
        "memory that NumPy shares: the artifact keeps the values that the parameters had in the trace",
        confirmed=True,
        evidence={"method": method, "state": [*names]},
        remedy=PASS_WEIGHTS,
    )


def draws_random_numbers(method: str, operator: str | None, line: SourceLine) -> Finding:
    """Return the finding that random numbers were drawn, though no answer changed with them.

    `operator` is the node of the graph that draws, if one does.
    """
    return Finding(
        kind=Kind.DRAWS_RANDOM_NUMBERS,
        detail=f"{method} draws random numbers; no answer was seen to change with them, and others may",
        evidence={"method": method, "operator": operator},
        remedy=CONTROL_RANDOMNESS,
        **line,
    )


def may_draw(method: str, operator: str, line: SourceLine) -> Finding:
    """Return the finding that a branch which no call took draws random numbers."""
    return Finding(
        kind=Kind.MAY_DRAW,
        detail=f"{method} draws random numbers with {operator} in a branch that no call took; inputs that take it are "
        "answered differently each time",
        evidence={"method": method, "operator": operator},
        remedy=CONTROL_RANDOMNESS,
        **line,
    )


def changes_its_input(method: str, names: Sequence[str]) -> Finding:
    """Return the finding that the eager model writes into its inputs, as the artifact does."""
    return Finding(
        kind=Kind.CHANGES_ITS_INPUT,
        detail=f"{method} writes into {', '.join(names)}, and so does the artifact; a reply does not show the change",
        confirmed=True,
        evidence={"method": method, "inputs": [*names]},
    )


def ambient_read(method: str, *, name: str, kind: str, effect: Effect, reason: str, line: SourceLine) -> Finding:
    """Return the finding that the model reads something outside its inputs, such as the clock.

    `name` is what the model calls, such as `time.time`, and `kind` says what that reads, such as "clock", or "order" of
    a set. With the effect `harmful`, which means that an answer depends on it, the finding rejects the artifact.
    """
    return Finding(
        kind=Kind.AMBIENT_READ if effect == "harmful" else Kind.AMBIENT_READ_SEEN,
        detail=f"this line of {method} reads {name}, which is not among its inputs: {reason}",
        confirmed=True if effect == "harmful" else None,
        evidence={"method": method, "kind": kind, "name": name},
        remedy=SORT_THE_SET if kind == "order" else MAKE_IT_AN_INPUT,
        effect=effect,
        reason=reason,
        **line,
    )


def unrecorded_write(method: str, what: str, line: SourceLine) -> Finding:
    """Return the finding that the model does something, `what` as a clause, that a trace does not record."""
    return Finding(
        kind=Kind.UNRECORDED_WRITE,
        detail=f"{method} changes or computes something that torch's tracer does not record: {what}; the artifact "
        "leaves it out",
        confirmed=True,
        evidence={"method": method, "what": what},
        remedy=WRITE_WITH_TORCH,
        **line,
    )


def training_mode(
    method: str, modules: str, effect: str, remedy: str, evidence: Sequence[Mapping[str, JsonValue]], line: SourceLine
) -> Finding:
    """Return the finding that modules of the artifact are in train mode, with what they do then.

    `modules` names them in prose; `evidence` has the path, type, operator and line of each.
    """
    return Finding(
        kind=Kind.TRAINING_MODE,
        detail=f"in train mode, {modules} {effect}",
        evidence={"method": method, "modules": [dict(one) for one in evidence]},
        remedy=remedy,
        **line,
    )


def python_int_is_64_bit(method: str, operator: str, line: SourceLine) -> Finding:
    """Return the finding that a scripted method computes with a number that may overflow, as Python's cannot."""
    return Finding(
        kind=Kind.PYTHON_INT_IS_64_BIT,
        detail=f"{method} computes with a whole number that it reads out of a tensor: Python's int has no bound, and "
        "TorchScript's wraps around at 2**63 without an error; whether a value gets there is not known",
        evidence={"method": method, "operator": operator},
        remedy="keep such numbers below 2**63, for example by taking the remainder before multiplying; or compute with "
        "tensors, which wrap around in the eager model as well",
        **line,
    )


def _two_answers(method: str, difference: Difference) -> dict[str, JsonValue]:
    """Return the evidence for two answers of the eager model; in `difference` they are `eager` and `artifact`."""
    return {
        "method": method,
        "output": difference.leaf,
        "first": difference.eager,
        "second": difference.artifact,
    }
