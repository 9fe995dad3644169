"""Weights: a submitted state dict is loaded into the model, and what got no value from it is found out."""

import json
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import BinaryIO

import torch
from torch.nn.parameter import is_lazy

from tracehouse.eager import checkpoint, weight_names
from tracehouse.eager.checkpoint import Checkpoint, StateDict
from tracehouse.eager.error_translation import translate_errors
from tracehouse.eager.weight_names import Mend, ModelNames
from tracehouse.errors import WeightsMismatch, WeightsUnreadable
from tracehouse.findings import weights as findings
from tracehouse.findings.finding import Finding
from tracehouse.findings.weights import quote_names
from tracehouse.frozen import Frozen
from tracehouse.spec.checkpoint_keys import is_usual
from tracehouse.spec.trace_spec import Weights

_NAMES_MAX = 50
_MENDS_MAX = 3
_PATTERNS_MAX = 5
# torch fills it in where an older file lacks it.
_FILLED_IN = "num_batches_tracked"


class Fit(Frozen):
    """The names that got no value from the weights (`missing`), and those that the model does not have."""

    missing: list[str] = []
    unexpected: list[str] = []
    findings: list[Finding] = []


def load(module: torch.nn.Module, file: BinaryIO, wanted: Weights, *, refuse_missing: bool) -> Fit:
    """Load the file's state dict into the module and return what did not fit.

    Raises WeightsUnreadable; and WeightsMismatch if a shape differs, if `wanted.strict` and a name does not fit, or if
    `refuse_missing` and the model lacks a value.
    """
    return _Loading(module, checkpoint.read(file, wanted.file), wanted).run(refuse_missing=refuse_missing)


def none_sent(module: torch.nn.Module, seed: int) -> Fit:
    """Return the fit of a model without weights: a finding, unless it has nothing that could be sent."""
    has_any = next(module.parameters(), None) is not None or next(module.buffers(), None) is not None
    return Fit(findings=[findings.weights_not_sent(seed)] if has_any else [])


class _Loading:
    """The weights of one file on their way into one module."""

    def __init__(self, module: torch.nn.Module, given: Checkpoint, wanted: Weights) -> None:
        self._module = module
        self._given = given
        self._wanted = wanted
        with translate_errors(WeightsMismatch, "reading the model's own weights raised"):
            # Parameters and buffers themselves, so that two names of one tensor have the same object.
            state = module.state_dict(keep_vars=True)
        self._own: StateDict = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}

    def run(self, *, refuse_missing: bool) -> Fit:
        wanted = self._wanted
        key = self._choose_key()
        state = weight_names.rename(self._given.states[key], wanted.rename)
        _check_shapes(self._own, state)
        missing, unexpected = self._copy(state)
        lacking = [name for name in missing if not _matches_any(name, wanted.allow_missing)]
        if (wanted.strict and unexpected) or (refuse_missing and lacking):
            raise WeightsMismatch(
                self._describe(lacking, unexpected),
                missing=lacking[:_NAMES_MAX],
                unexpected=unexpected[:_NAMES_MAX],
                remedy=self._remedy(lacking, key),
            )
        found = [
            *self._findings_of_missing(lacking, unexpected, key),
            *self._findings_of_key(key),
            *self._findings_of_allowed(missing),
            *([findings.weights_unexpected(unexpected, wanted.file)] if unexpected else []),
            *self._findings_of_renames(key),
        ]
        return Fit(missing=missing, unexpected=unexpected, findings=found)

    def _choose_key(self) -> str:
        """Return the key of the state dict to load. Raises WeightsUnreadable unless the request or the file says it."""
        states, file = self._given.states, self._wanted.file
        keys = [*states]
        if self._wanted.key is not None:
            if self._wanted.key in states:
                return self._wanted.key
            detail = f"{file!r} has no state dict under {self._wanted.key!r}"
        else:
            usual = [key for key in keys if is_usual(key)]
            if len(usual) == 1:
                return usual[0]
            detail = f"{file!r} does not say which of its state dicts is meant: {quote_names(keys)}"
        if keys == [""]:
            raise WeightsUnreadable(
                f"{detail}: it is itself one", file=file, found=self._given.names, remedy="leave out weights.key"
            )
        mends = self._mends() or [Mend(key, {}, 0) for key in keys]
        raise WeightsUnreadable(
            detail, file=file, found=keys[:_NAMES_MAX], remedy=_join_mends(mends, "", strict=self._wanted.strict)
        )

    def _copy(self, state: StateDict) -> tuple[list[str], list[str]]:
        """Copy the values, and return the names without a value and the names that the model does not have.

        torch's list of missing names has also the second name of a tensor that got its value by the first, and lacks
        what a hook of the model took from it. So a tensor counts as missing if nothing was written to it. A view counts
        as written to with its neighbours: of a name that torch lists, another name must have given the tensor a value.
        """
        before = {name: _count_writes(tensor) for name, tensor in self._own.items()}
        with translate_errors(WeightsMismatch, "loading the weights raised"):
            result = self._module.load_state_dict(state, strict=False)
        # A `load_state_dict` of the model's own may return nothing.
        listed = {*getattr(result, "missing_keys", ())}
        written = {name for name, tensor in self._own.items() if _count_writes(tensor) != before[name]}
        given = {id(self._own[name]) for name in ({*state} | written) - listed if name in self._own}
        missing = [
            name
            for name, tensor in self._own.items()
            if _has_values(tensor)
            and (id(tensor) not in given if name in listed else name not in state and name not in written)
        ]
        others = [name for name in sorted(listed) if name not in self._own]
        return [*missing, *others], [*getattr(result, "unexpected_keys", ())]

    def _mends(self) -> list[Mend]:
        """Return the ways to give every weight of the model a value from this file."""
        names_of: dict[int, list[str]] = {}
        for name, tensor in self._own.items():
            names_of.setdefault(id(tensor), []).append(name)
        groups = [names for names in names_of.values() if not any(map(self._may_be_missing, names))]
        shapes = {name: None if is_lazy(tensor) else tuple(tensor.shape) for name, tensor in self._own.items()}
        states = {
            key: {name: tuple(tensor.shape) for name, tensor in state.items()}
            for key, state in self._given.states.items()
        }
        return weight_names.find_mends(ModelNames(groups, shapes), states)

    def _may_be_missing(self, name: str) -> bool:
        return name.endswith(_FILLED_IN) or _matches_any(name, self._wanted.allow_missing)

    def _describe(self, lacking: Sequence[str], unexpected: Sequence[str]) -> str:
        file, parts = self._wanted.file, []
        if lacking:
            parts.append(
                f"{len(lacking)} of the model's {len(self._own)} parameters and buffers got no value from {file!r}: "
                f"{quote_names(lacking)}"
            )
        if unexpected:
            parts.append(
                f"the model does not have {len(unexpected)} of the names in {file!r}: {quote_names(unexpected)}"
            )
        return "; ".join(parts)

    def _remedy(self, lacking: Sequence[str], key: str) -> str:
        if not lacking:
            return "set weights.strict to false: all parameters and buffers have their values without those names"
        if mends := [one for one in self._mends() if (one.key, one.rename) != (key, self._wanted.rename)]:
            joined = _join_mends(mends, key, strict=self._wanted.strict)
            return f"{joined}: then every parameter and buffer gets a value"
        parameters = {name for name, _ in self._module.named_parameters(remove_duplicate=False)}
        if not parameters.intersection(lacking):
            return (
                "send the values of these buffers too; or, if the source computes them, set weights.allow_missing to "
                f"{json.dumps(_patterns_for(lacking))}"
            )
        return (
            "send this model's own weights; if only what the names begin with differs, say it in weights.rename; name "
            "those that may keep the values of the source in weights.allow_missing"
        )

    def _findings_of_missing(self, lacking: Sequence[str], unexpected: Sequence[str], key: str) -> list[Finding]:
        if not lacking:
            return []
        return [findings.weights_missing(lacking, self._describe(lacking, unexpected), self._remedy(lacking, key))]

    def _findings_of_key(self, key: str) -> list[Finding]:
        if not key or self._wanted.key is not None:
            return []
        others = [name for name in self._given.names if name != key.partition(".")[0]]
        return [findings.weights_key_chosen(key, self._wanted.file, others)]

    def _findings_of_allowed(self, missing: Sequence[str]) -> list[Finding]:
        patterns = self._wanted.allow_missing
        allowed = [name for name in missing if _matches_any(name, patterns)]
        unused = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in missing)]
        return [
            *([findings.weights_missing_allowed(allowed, self._wanted.file)] if allowed else []),
            *(findings.pattern_without_effect(pattern) for pattern in unused),
        ]

    def _findings_of_renames(self, key: str) -> list[Finding]:
        names = self._given.states[key]
        unused = [old for old in self._wanted.rename if not any(name.startswith(old) for name in names)]
        return [findings.rename_without_effect(old, self._wanted.file) for old in unused]


def _check_shapes(own: Mapping[str, torch.Tensor], state: StateDict) -> None:
    other_shapes = [
        {"name": name, "expected": list(own[name].shape), "actual": list(given.shape)}
        for name, given in state.items()
        if name in own and not is_lazy(own[name]) and own[name].shape != given.shape
    ]
    if other_shapes:
        first = other_shapes[0]
        raise WeightsMismatch(
            f"{first['name']!r} has the shape {first['actual']}, and the model's has {first['expected']}; "
            f"{len(other_shapes)} of the weights differ in shape",
            mismatched=other_shapes[:_NAMES_MAX],
        )


def _count_writes(tensor: torch.Tensor) -> int | None:
    """Return how often the tensor was written to; None while a lazy module has not made it."""
    return None if is_lazy(tensor) or tensor.is_inference() else tensor._version


def _has_values(tensor: torch.Tensor) -> bool:
    return is_lazy(tensor) or tensor.numel() > 0


def _matches_any(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _patterns_for(names: Sequence[str]) -> list[str]:
    """Return patterns that fit these names."""
    patterns = dict.fromkeys(f"*.{name.rpartition('.')[2]}" if "." in name else name for name in names)
    return [*patterns][:_PATTERNS_MAX]


def _join_mends(mends: Sequence[Mend], key: str, *, strict: bool) -> str:
    options = " or ".join(mend.describe(key, strict=strict) for mend in mends[:_MENDS_MAX])
    return f"set {options}" if len(mends) == 1 else f"set {options}, whichever is meant"
