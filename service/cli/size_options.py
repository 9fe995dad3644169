"""Sizes that are wanted, as the shell writes them: `ids:1=seq`, `seq=1..128`, `seq=16,32`."""

import re
from collections.abc import Iterable
from typing import Any

import typer

_DIM = re.compile(r"(?P<leaf>.+):(?P<dim>\d+)=(?P<size>.+)")
_RANGE = re.compile(r"(?P<symbol>\w+)=(?P<low>\d+)\.\.(?P<high>\d+)(?:/(?P<step>\d+))?")
_LIST = re.compile(r"(?P<symbol>\w+)=(?P<sizes>\d+(?:,\d+)*)")


def dynamic(texts: Iterable[str]) -> dict[str, Any]:
    """The request's `dynamic`. Raises typer.BadParameter, as the others do."""
    declared: dict[str, Any] = {}
    for text in texts:
        found = _matched(_DIM, text, "ids:1=seq")
        declared.setdefault(found["leaf"], {})[found["dim"]] = found["size"]
    return declared


def sizes(texts: Iterable[str]) -> dict[str, Any]:
    """The request's `sizes`."""
    wanted = (_matched(_RANGE, text, "seq=1..128, or seq=8..128/8 in steps of 8") for text in texts)
    return {
        one["symbol"]: {"low": int(one["low"]), "high": int(one["high"]), "step": int(one["step"] or 1)}
        for one in wanted
    }


def buckets(text: str | None) -> dict[str, Any]:
    """The request's `buckets`."""
    if text is None:
        return {}
    found = _matched(_LIST, text, "seq=16,32,64")
    return {found["symbol"]: [int(size) for size in found["sizes"].split(",")]}


def _matched(pattern: re.Pattern[str], text: str, example: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no size: write {example}")
    return found
