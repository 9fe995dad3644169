"""Sample files: real inputs for `tracehouse trace --samples`. Of what they hold, only the names are read here."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import typer

from service.cli.example_inputs import Uploads
from service.cli.existing_file import existing_file
from tracehouse.spec.image_reading import is_image

_SUFFIXES = (".npz", ".safetensors")
_HOW = "name its entries 0/ids, 0/mask, 1/ids and so on: the sample's number from 0, and the input's name"


def sample_file(text: str, uploads: Uploads) -> dict[str, Any]:
    """Return the file as a trace request refers to it, with how many samples it has. Raises typer.BadParameter."""
    path = Path(text)
    if is_image(text):
        return {"file": uploads.add(existing_file(path))}
    if path.suffix not in _SUFFIXES:
        raise typer.BadParameter(f"{text!r} is no .npz, .safetensors, .png or .jpg file")
    try:
        numbers = {name.partition("/")[0] for name in _entry_names(path)}
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{text!r} cannot be read: {error}") from error
    if not numbers or numbers != {str(number) for number in range(len(numbers))}:
        raise typer.BadParameter(f"{text!r} has no samples that are numbered from 0: {_HOW}")
    return {"file": uploads.add(path), "count": len(numbers)}


def _entry_names(path: Path) -> list[str]:
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return [*archive.files]
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return [name for name in header if name != "__metadata__"]
