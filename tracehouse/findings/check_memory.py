"""Check memory: what memory a check needs and may take, and what it leaves out for lack of it."""

from typing import Annotated

from pydantic import Field

from tracehouse.frozen import Frozen

ByteCount = Annotated[int, Field(ge=0, lt=2**63)]


class CheckMemory(Frozen):
    """How much memory the process that checks needs and may take, in bytes."""

    model_bytes: ByteCount = Field(description="The parameters and buffers of the model.")
    call_bytes: ByteCount = Field(
        description="What the tensors of one call on the example take at one time; of the method that takes most."
    )
    needed_bytes: ByteCount = Field(
        description="What the whole check takes at most, beside what the process held before the model was loaded: "
        "three times the model and one call, five times a model in half precision, and 256 MiB for Python's objects.",
    )
    free_bytes: ByteCount | None = Field(
        None,
        description="What the process could still take as the check began, with the model loaded. Null: no limit is "
        "known.",
    )
    left_out: list[Annotated[str, Field(max_length=500)]] = Field(
        [],
        max_length=8,
        description="What the check leaves out because the whole does not fit. `layers` name it too.",
    )
