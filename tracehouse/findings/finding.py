"""A finding: something about a trace that a person must know."""

from typing import Any, Literal

from pydantic import Field, JsonValue, model_validator

from tracehouse.frozen import Frozen, with_new_names

# What a line that reads a value, or of which the tracer warned, does to the artifact.
Effect = Literal["harmless", "harmful", "unknown"]


class Finding(Frozen):
    """Something about the trace that a person must know: what, which line, how it is known, what to write instead."""

    kind: str = Field(description="Its stable name, such as `tracer-warning` or `output-differs`.")
    detail: str
    file: str | None = Field(None, description="The file, of the source or of a library that it uses.")
    line: int | None = None
    source: str | None = Field(None, description="The text of that line.")
    confirmed: bool | None = Field(None, description="True where inputs were found that show it; null where unknown.")
    evidence: dict[str, JsonValue] = Field({}, description="What shows it: the method, the output, what each gave.")
    remedy: str | None = Field(None, description="What to write instead.")
    effect: Effect | None = Field(
        None, description="Whether a TracerWarning, or another read of a value, makes the artifact wrong."
    )
    reason: str | None = Field(None, description="How the effect is known.")
    counterexample: int | None = Field(None, description="The artifact's counterexample that shows it, by its number.")

    @model_validator(mode="before")
    @classmethod
    def _read_old_name(cls, document: Any) -> Any:
        if not isinstance(document, dict) or "evidence" not in document:
            return document
        return {**document, "evidence": with_new_names(document["evidence"], {"parting": "divergence"})}
