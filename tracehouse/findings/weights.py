"""Findings about weights: which values the model has that no weights of the request gave it."""

from collections.abc import Sequence

from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.remedies import LEAVE_WEIGHTS_OUT, NAME_STATE_DICT, SEND_WEIGHTS

_NAMES_IN_TEXT = 3
_NAMES_MAX = 50


def quote_names(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    first = ", ".join(map(repr, names[:_NAMES_IN_TEXT]))
    others = len(names) - _NAMES_IN_TEXT
    return f"{first} and {others} more" if others > 0 else first


def weights_not_sent(seed: int) -> Finding:
    """Return the finding that the request has no weights."""
    return Finding(
        kind=Kind.WEIGHTS_NOT_SENT,
        detail=f"no weights were sent: parameters and buffers have the values that the source gives them (seed {seed})",
        evidence={"seed": seed},
        remedy=SEND_WEIGHTS,
    )


def weights_missing(names: Sequence[str], detail: str, remedy: str) -> Finding:
    """Return the finding that parameters or buffers got no value from the weights that were sent."""
    return Finding(
        kind=Kind.WEIGHTS_MISSING,
        detail=f"{detail}. Those without a value have what the source gives them, which is often random",
        evidence={"missing": [*names[:_NAMES_MAX]], "number": len(names)},
        remedy=remedy,
    )


def weights_missing_allowed(names: Sequence[str], file: str) -> Finding:
    """Return the finding that the request allows parameters or buffers without a value."""
    return Finding(
        kind=Kind.WEIGHTS_MISSING_ALLOWED,
        detail=f"{len(names)} parameters and buffers got no value from {file!r}, as weights.allow_missing permits, and "
        f"have what the source gives them: {quote_names(names)}",
        evidence={"missing": [*names[:_NAMES_MAX]], "number": len(names)},
    )


def weights_unexpected(names: Sequence[str], file: str) -> Finding:
    """Return the finding that some of the weights that were sent are not used."""
    return Finding(
        kind=Kind.WEIGHTS_UNEXPECTED,
        detail=f"the model does not have {len(names)} of the names in {file!r}, and their values are not used: "
        f"{quote_names(names)}",
        evidence={"unexpected": [*names[:_NAMES_MAX]], "number": len(names)},
        remedy=LEAVE_WEIGHTS_OUT,
    )


def weights_key_chosen(key: str, file: str, others: Sequence[str]) -> Finding:
    """Return the finding that the weights are a part of their file, which the request does not name."""
    beside = f", and not what is beside it: {quote_names(others)}" if others else ""
    return Finding(
        kind=Kind.WEIGHTS_KEY_CHOSEN,
        detail=f"the weights are the state dict under {key!r} in {file!r}{beside}",
        evidence={"key": key, "beside": [*others[:_NAMES_MAX]]},
        remedy=NAME_STATE_DICT,
    )


def pattern_without_effect(pattern: str) -> Finding:
    """Return the finding that a pattern of weights.allow_missing fits nothing that is missing."""
    return Finding(
        kind=Kind.OPTION_WITHOUT_EFFECT,
        detail=f"weights.allow_missing has {pattern!r}: no parameter or buffer of such a name is missing",
        evidence={"option": "weights.allow_missing", "pattern": pattern},
        remedy=f"leave {pattern!r} out of weights.allow_missing",
    )


def rename_without_effect(old: str, file: str) -> Finding:
    """Return the finding that no name of the weights begins as weights.rename says."""
    return Finding(
        kind=Kind.OPTION_WITHOUT_EFFECT,
        detail=f"weights.rename has {old!r}: no name in {file!r} begins with it",
        evidence={"option": "weights.rename", "prefix": old},
        remedy=f"leave {old!r} out of weights.rename",
    )
