"""A way: how an artifact is made of a model. Mode auto tries several, and keeps the one that leaves least in doubt."""

from typing import Annotated, Literal

from pydantic import Field

from tracehouse.frozen import Frozen

PARTS_MAX = 100
# As Python writes them, `layers.0` too: they come from the process that ran the model's code, and stand in a manifest.
_PART_NAME = r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$"
_NAMED_MAX = 10


class ScriptTarget(Frozen):
    """A submodule under its dotted name, or a function of the source as `module.name`."""

    name: str = Field(max_length=500, pattern=_PART_NAME)
    is_function: bool = False


ScriptTargets = Annotated[list[ScriptTarget], Field(max_length=PARTS_MAX)]


class Conversion(Frozen):
    """Traced, where `scripted` are parts that are scripted first; or scripted whole."""

    mode: Literal["trace", "script"] = "trace"
    scripted: ScriptTargets = []
    sizes: dict[str, int] = Field({}, description="Of symbols that the examples are given first, for a bucket.")

    def __str__(self) -> str:
        names = ", ".join(part.name for part in self.scripted[:_NAMED_MAX])
        more = f" and {len(self.scripted) - _NAMED_MAX} more" if len(self.scripted) > _NAMED_MAX else ""
        text = f"{self.mode}, with {names}{more} scripted" if names else self.mode
        return text + "".join(f", for {symbol} {size}" for symbol, size in self.sizes.items())
