"""Offered cases: inputs that a check found worth trying again, and how many of them are kept."""

from tracehouse.byte_units import MIB

# Of the cases that a tracing child offers to be tried again: the examples' size is no bound on them, but theirs is.
CASES_MAX = 8

CASES_MAX_BYTES = 16 * MIB

CASE_NAME_MAX_CHARACTERS = 200
