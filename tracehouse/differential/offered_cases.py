"""Offered cases: how many inputs a check may offer to be tried again, and how large they and their names may be.

The tracing process offers inputs that it found worth another try. The size of the examples does not bound them, so
these constants do.
"""

from tracehouse.byte_units import MIB

CASES_MAX = 8  # this one and the others are chosen
CASES_MAX_BYTES = 16 * MIB  # the tensors of all cases together
CASE_NAME_MAX_CHARACTERS = 200
