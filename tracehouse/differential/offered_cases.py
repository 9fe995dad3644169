"""Offered cases: inputs that a check found worth trying again, what they are called, and how many of them are kept."""

from tracehouse.byte_units import MIB

# Of the cases that a tracing child offers to be tried again: the examples' size is no bound on them, but theirs is.
CASES_MAX = 8

CASES_MAX_BYTES = 16 * MIB

CASE_NAME_MAX_CHARACTERS = 200


def name_counterexample(what: str) -> str:
    """Return the case's name of a counterexample, by what it shows."""
    return f"counterexample: {what}"


def name_value_read(file: str, line: int) -> str:
    """Return what a counterexample shows that was found for a value read at this line."""
    return f"value at {file}:{line}"


def shows_value_read(case: str, file: str, line: int) -> bool:
    """Whether the case of that name is the counterexample of a value read at this line."""
    return case == name_counterexample(name_value_read(file, line))
