"""File limits: how large the files of an artifact may be.

The limits are chosen: a usual model stays far below them, and a hostile one can fill neither memory nor disk.
"""

from tracehouse.byte_units import GIB, MIB

PRINTOUTS_MAX_BYTES = 32 * MIB

SOURCES_MAX_BYTES = MIB
EXPORTED_MAX_BYTES = GIB
