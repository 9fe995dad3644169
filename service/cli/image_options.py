"""Image options as a shell writes them: `224x224`, `own`, `0.485,0.456,0.406`."""

import re
from typing import Any

import typer

_SIZE = re.compile(r"(\d{1,9})x(\d{1,9})")


def parse_reading(
    name: str | None, size: str | None, mean: str | None, std: str | None, layout: str | None
) -> dict[str, Any]:
    """Return `image` of a sample of a trace request; empty if nothing is given. Raises typer.BadParameter."""
    given = {
        "input": name,
        "size": None if size is None else _parse_size(size),
        "mean": None if mean is None else _parse_numbers("--image-mean", mean),
        "std": None if std is None else _parse_numbers("--image-std", std),
        "layout": layout,
    }
    return {key: value for key, value in given.items() if value is not None}


def _parse_size(text: str) -> str | list[int]:
    if text in ("example", "own"):
        return text
    found = _SIZE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no size of a picture: write --image-size 224x224, or own")
    return [int(found[1]), int(found[2])]


def _parse_numbers(option: str, text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} are no numbers: write {option} 0.485,0.456,0.406") from error
