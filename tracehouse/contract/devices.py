"""Devices: the operators of an artifact whose results are on one device, wherever the artifact is loaded."""

from typing import Annotated

from pydantic import Field

from tracehouse.frozen import Frozen

# What to write so that an operator follows its inputs. torch records a device as a constant, `x.device` too.
FOLLOW_INPUTS = (
    "make the tensor from one that moves with the inputs, with x.new_zeros(...) or torch.zeros_like(x), or register it "
    "as a buffer; or trace on each device, with `devices` in the trace request"
)
# How many operators of one method are listed. Chosen.
FIXED_DEVICES_MAX = 20


class FixedDevice(Frozen):
    """An operator whose result is always on one device, and the first line that calls it."""

    operator: str = Field(description="The operator, such as `aten::zeros`.", max_length=200)
    device: str = Field(description="Its device, such as `cpu` or `cuda:0`.", max_length=32)
    file: str | None = None
    line: int | None = None

    @property
    def place(self) -> str | None:
        """The line, as `net.py:6`; None if it is not known."""
        return None if self.file is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return f"{self.operator} on {self.device}" + (f" at {self.place}" if self.place is not None else "")


FixedDevices = Annotated[list[FixedDevice], Field(max_length=FIXED_DEVICES_MAX)]
