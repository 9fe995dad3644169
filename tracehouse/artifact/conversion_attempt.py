"""A conversion attempt: one way to make an artifact, and its outcome."""

from pydantic import Field

from tracehouse.findings.verdict import Verdict
from tracehouse.frozen import Frozen


class ConversionAttempt(Frozen):
    """One way to make an artifact that was tried, and its outcome."""

    way: str = Field(
        description="`trace`, `trace, with gate scripted`, or `script`; for a bucket, `, for seq 16` follows."
    )
    verdict: Verdict | None = Field(description="Null if it gave no artifact.")
    kept: bool = Field(description="Whether this artifact came from it.")
    detail: str | None = Field(None, description="Why it gave none, or was not kept.")
