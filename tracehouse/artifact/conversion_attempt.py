"""A conversion attempt: a way to make an artifact that was tried, and what came of it."""

from pydantic import Field

from tracehouse.findings.trace_check import Verdict
from tracehouse.frozen import Frozen


class ConversionAttempt(Frozen):
    """A way that was tried, and what came of it."""

    way: str = Field(
        description="`trace`, `trace, with gate scripted`, or `script`; a bucket's ends in `, for seq 16`."
    )
    verdict: Verdict | None = Field(description="Null where it gave no artifact.")
    kept: bool = Field(description="Whether this artifact is what it gave.")
    detail: str | None = Field(None, description="Why it gave none, or was not kept.")
