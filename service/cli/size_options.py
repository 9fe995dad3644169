"""Size options as a shell writes them: `ids:1=seq`, `seq=1..128`, `seq=16,32`."""

import re
from collections.abc import Iterable
from typing import Any

import typer

from service.cli.given_once import add_once

_DIM = re.compile(r"(?P<leaf>.+):(?P<dim>\d+)=(?P<size>.+)")
_RANGE = re.compile(r"(?P<symbol>\w+)=(?P<low>\d+)\.\.(?P<high>\d+)(?:/(?P<step>\d+))?")
_LIST = re.compile(r"(?P<symbol>\w+)=(?P<sizes>\d+(?:,\d+)*)")


def parse_dynamic(texts: Iterable[str]) -> dict[str, Any]:
    """Return `dynamic` of a trace request. Raises typer.BadParameter."""
    declared: dict[str, Any] = {}
    for text in texts:
        found = _match(_DIM, text, "ids:1=seq")
        add_once(declared.setdefault(found["leaf"], {}), found["dim"], found["size"], f"of {found['leaf']}, the dim")
    return declared


def parse_sizes(texts: Iterable[str]) -> dict[str, Any]:
    """Return `sizes` of a trace request. Raises typer.BadParameter."""
    sizes: dict[str, Any] = {}
    for text in texts:
        found = _match(_RANGE, text, "seq=1..128, or seq=8..128/8 in steps of 8")
        span = {"low": int(found["low"]), "high": int(found["high"]), "step": int(found["step"] or 1)}
        add_once(sizes, found["symbol"], span, "the size of")
    return sizes


def parse_buckets(text: str | None) -> dict[str, Any]:
    """Return `buckets` of a trace request. Raises typer.BadParameter."""
    if text is None:
        return {}
    found = _match(_LIST, text, "seq=16,32,64")
    return {found["symbol"]: [int(size) for size in found["sizes"].split(",")]}


def _match(pattern: re.Pattern[str], text: str, example: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no size: write {example}")
    return found
