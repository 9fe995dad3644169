"""Bitwise rows: whether an answer has the same bytes whoever shares its call, as found on the machine that serves.

torch chooses its code by the number of rows of a call, and the processor rounds otherwise in each. So the level of a
batch certificate, which an artifact has for all machines, is `numeric`; `bitwise` is found where it serves.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from service.domain.machine_finding import MachineFinding
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import TensorSpec


class BatchLevel(StrEnum):
    """How equal the answers to a request are, alone and beside others."""

    NUMERIC = "numeric"
    BITWISE = "bitwise"


class RowTrial(Frozen):
    """What calls showed of the rows of inputs of one shape."""

    method: str
    inputs: list[TensorSpec] = Field(description="A request of one row.")
    level: BatchLevel = Field(
        description="`bitwise`: in all calls, each row was answered with the same bytes, whatever its place was, "
        "whichever rows were beside it, and whichever of `rows` was the number of rows. `numeric`: it was not, or that "
        "could not be found out; answers may differ within the tolerance, and with `bitwise`, requests are answered "
        "one by one."
    )
    rows: list[int] = Field(
        description="With `bitwise`, calls have one of these numbers of rows: what is missing is filled up with copies "
        "of the first row, also for a request that is alone."
    )
    calls: int = Field(ge=0, description="How many calls were compared. They are samples, and no proof.")
    why: str


class BitwiseRows(MachineFinding):
    """What is known of an artifact's rows on one kind of machine. What no trial is about is answered one by one."""

    found_at: datetime
    trials: list[RowTrial]
