"""Remedies as the command prints them: with its options for the fields of a trace request that a remedy names."""

import re
from collections.abc import Iterator
from typing import Literal

Command = Literal["trace", "check"]

# The options of `tracehouse trace`, by field. A field of one plain word counts in backticks alone.
OPTIONS = {
    "weights": "--weights",
    "weights.key": "--weights-key",
    "weights.rename": "--weights-rename",
    "weights.strict": "--weights-strict",
    "weights.allow_missing": "--allow-missing",
    "init": "--init",
    "stub_missing": "--stub-missing",
    "source.stub_missing": "--stub-missing",
    "environment": "--environment",
    "mode": "--mode",
    "precision": "--precision",
    "dynamic": "--dynamic",
    "sizes": "--sizes",
    "buckets": "--buckets",
    "budget_s": "--budget",
    "check.budget_s": "--budget",
    "check.budget": "--budget",
    "check.probes": "--probes",
    "check.samples": "--samples",
    "check.gradients": "--gradients",
    "accept_unsound": "--accept-unsound",
}
# A check registers nothing.
_NOT_OF_CHECK = ("accept_unsound",)


def remedy_lines(remedy: str, command: Command = "trace") -> Iterator[str]:
    """Yield the remedy and, where it names fields of a trace request, the command's options that stand for them."""
    yield f"  remedy: {remedy}"
    named = {option: field for field, option in options_of(command).items() if _names(remedy, field)}
    if named:
        options = ", ".join(f"{option} for {field}" for option, field in named.items())
        yield f"  options of tracehouse {command}: {options}"


def options_of(command: Command) -> dict[str, str]:
    """Return the command's options by the fields of a trace request that they stand for."""
    return {field: option for field, option in OPTIONS.items() if command == "trace" or field not in _NOT_OF_CHECK}


def _names(remedy: str, field: str) -> bool:
    is_plain = re.fullmatch("[a-z]+", field)
    pattern = f"`{field}`" if is_plain else rf"(?<![\w.]){re.escape(field)}(?!\.?\w)"
    return re.search(pattern, remedy) is not None
