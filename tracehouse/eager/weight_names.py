"""The names of weights: renamed as the request says, and searched for a renaming that makes them fit the model."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tracehouse.errors import WeightsMismatch
from tracehouse.spec.trace_spec import RENAMES_MAX

Shape = tuple[int, ...]
Value = TypeVar("Value")

# Names that DataParallel, torch.compile, FSDP and activation checkpointing put between those of a model.
_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_PARALLEL = "module"
# So many ways to change what names begin with are tried.
_HEADS_MAX = 20


@dataclass(frozen=True)
class ModelNames:
    """The names that need a value, in groups that are names of one tensor, and the shape of each name.

    The shape of a lazy parameter is None.
    """

    groups: Sequence[Collection[str]]
    shapes: Mapping[str, Shape | None]


@dataclass(frozen=True)
class Mend:
    """A state dict of the file and a renaming with which every name of the model has a value.

    `unused` counts the names of that state dict that the model does not have then.
    """

    key: str
    rename: Mapping[str, str]
    unused: int

    def describe(self, wanted_key: str, *, strict: bool) -> str:
        """Return which options to set, where the state dict under `wanted_key` is used so far."""
        options = [] if self.key == wanted_key else [f"weights.key to {json.dumps(self.key)}"]
        options += [f"weights.rename to {json.dumps(self.rename)}"] if self.rename else []
        options += ["weights.strict to false"] if strict and self.unused else []
        return " and ".join(options)


def rename(named: Mapping[str, Value], renames: Mapping[str, str]) -> dict[str, Value]:
    """Return the values by their new names. Raises WeightsMismatch if two get the same name."""
    renamed: dict[str, Value] = {}
    for name, value in named.items():
        new = _rename_one(name, renames)
        if new in renamed:
            raise WeightsMismatch(f"weights.rename gives the name {new!r} to two of the weights", name=new)
        renamed[new] = value
    return renamed


def find_mends(model: ModelNames, states: Mapping[str, Mapping[str, Shape]]) -> list[Mend]:
    """Return what makes the weights fit: of all ways, those that leave the fewest names of the file unused."""
    mends = [mend for key, shapes in states.items() for mend in _mends_of(model, key, shapes)]
    fewest = min((mend.unused for mend in mends), default=0)
    return [mend for mend in mends if mend.unused == fewest]


def _mends_of(model: ModelNames, key: str, shapes: Mapping[str, Shape]) -> Iterator[Mend]:
    tried: list[Mapping[str, str]] = []
    for renames in _candidates(model, shapes):
        if renames in tried:
            continue
        tried.append(renames)
        try:
            renamed = rename(shapes, renames)
        except WeightsMismatch:
            continue
        if _fits(model, renamed):
            yield Mend(key, renames, sum(name not in model.shapes for name in renamed))


def _fits(model: ModelNames, given: Mapping[str, Shape]) -> bool:
    if not all(any(name in given for name in group) for group in model.groups):
        return False
    return all(shape is None or given.get(name, shape) == shape for name, shape in model.shapes.items())


def _candidates(model: ModelNames, given: Collection[str]) -> Iterator[Mapping[str, str]]:
    yield {}
    lacking = [name for group in model.groups if not any(name in given for name in group) for name in group]
    if lacking:
        yield from _changed_heads(max(lacking, key=lambda name: name.count(".")), given)
    for wrappers in (_WRAPPERS, (*_WRAPPERS, _PARALLEL)):
        renames = _without_wrappers(given, wrappers)
        if 0 < len(renames) <= RENAMES_MAX:
            yield renames


def _changed_heads(wanted: str, given: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """Yield the renamings of one head that turn a given name into the wanted one, those that keep most first."""
    parts = wanted.split(".")
    kept: dict[tuple[str, str], int] = {}
    for name in given:
        others = name.split(".")
        alike = _count_alike_at_the_end(parts, others)
        if alike:
            kept[_head(others, alike), _head(parts, alike)] = alike
    for old, new in sorted(kept, key=lambda heads: -kept[heads])[:_HEADS_MAX]:
        yield {old: new}


def _count_alike_at_the_end(parts: Sequence[str], others: Sequence[str]) -> int:
    pairs = zip(reversed(parts), reversed(others), strict=False)
    return next((count for count, (one, other) in enumerate(pairs) if one != other), min(len(parts), len(others)))


def _head(parts: Sequence[str], alike: int) -> str:
    return "".join(f"{part}." for part in parts[: len(parts) - alike])


def _without_wrappers(given: Iterable[str], wrappers: Collection[str]) -> dict[str, str]:
    """Return the renaming that takes the wrappers' names out, wherever they are."""
    renames = {}
    for name in given:
        *heads, _ = name.split(".")
        while heads and heads[-1] not in wrappers:
            heads.pop()
        if heads:
            renames[_head(heads, 0)] = _head([part for part in heads if part not in wrappers], 0)
    return renames


def _rename_one(name: str, renames: Mapping[str, str]) -> str:
    old = max((old for old in renames if name.startswith(old)), key=len, default=None)
    return name if old is None else renames[old] + name[len(old) :]
