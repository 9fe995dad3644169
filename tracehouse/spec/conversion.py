"""A conversion: how an artifact is made from a model. Mode auto tries several conversions and keeps the best."""

from typing import Annotated, Literal

from pydantic import Field

from tracehouse.frozen import Frozen

TARGETS_MAX = 100  # chosen: a model with more lines at fault is better scripted as a whole
# Dotted Python names, and numbers as in `layers.0`. The names come from the process that ran the model's code.
_TARGET_NAME = r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$"
_NAMED_MAX = 10


class ScriptTarget(Frozen):
    """Something that is scripted: a submodule, by its dotted name, or a function of the source, as `module.name`."""

    name: str = Field(max_length=500, pattern=_TARGET_NAME)
    is_function: bool = False


ScriptTargets = Annotated[list[ScriptTarget], Field(max_length=TARGETS_MAX)]


class Conversion(Frozen):
    """Tracing the model, with the targets in `scripted` scripted first, or scripting all of it."""

    mode: Literal["trace", "script"] = "trace"
    scripted: ScriptTargets = []
    sizes: dict[str, int] = Field(
        {}, description="For a bucket: the symbols' sizes to which the examples are resized first."
    )

    def __str__(self) -> str:
        names = ", ".join(target.name for target in self.scripted[:_NAMED_MAX])
        more = f" and {len(self.scripted) - _NAMED_MAX} more" if len(self.scripted) > _NAMED_MAX else ""
        text = f"{self.mode}, with {names}{more} scripted" if names else self.mode
        return text + "".join(f", for {symbol} {size}" for symbol, size in self.sizes.items())
