"""Sample files: real inputs for `tracehouse trace --samples`. Of what they hold, only the names are read here."""

from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import typer
from safetensors import SafetensorError, safe_open

from service.cli.example_inputs import Uploads
from service.cli.existing_file import existing_file
from tracehouse.errors import MalformedTensors
from tracehouse.spec.image_reading import is_image
from tracehouse.tensors.npz import list_entries

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
    except (OSError, ValueError, MalformedTensors, SafetensorError) as error:
        raise typer.BadParameter(f"{text!r} cannot be read: {error}") from error
    if not numbers or numbers != {str(number) for number in range(len(numbers))}:
        raise typer.BadParameter(f"{text!r} has no samples that are numbered from 0: {_HOW}")
    return {"file": uploads.add(path), "count": len(numbers)}


def _entry_names(path: Path) -> list[str]:
    if path.suffix == ".npz":
        with path.open("rb") as file:
            # The map is closed with the last view of it, which the frames of an error may have.
            whole = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
            return [entry.name for entry in list_entries(whole)]
    with safe_open(path, framework="numpy") as file:
        return [*file.keys()]
