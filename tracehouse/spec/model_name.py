"""Model names: what a name in the registry may look like, and what a model is called if nobody says it."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

# No slash, @ or colon: `name@alias` and `name:version` must be unambiguous, also in a URL.
NAME_PATTERN = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?"

NAME_RULE = "a name is 1 to 64 letters, digits, '.', '_' or '-', with a letter or digit at both ends"

_NAME = re.compile(NAME_PATTERN)
_MAX_CHARACTERS = 64


def is_name(text: str) -> bool:
    """Whether a model, an alias or an environment may have this name."""
    return _NAME.fullmatch(text) is not None


def name_of_source(path: Path | None, entrypoint: str) -> str:
    """Return what the model of a source is called if nobody says otherwise.

    It is the name of the file. What is in a folder is called as the module of the entrypoint, and what is installed,
    and has no path here, as its package.
    """
    module = entrypoint.partition(":")[0]
    if path is None:
        return _name_like(module.partition(".")[0])
    return _name_like(module.rpartition(".")[2] if path.is_dir() else path.stem)


def name_of_object(name: str) -> str:
    """Return what a live model is called if nobody says otherwise: as its class or function, in lower case."""
    return _name_like(name.lower())


def _name_like(text: str) -> str:
    """Return a name that a model can have: that of a file or a class may begin with an underscore."""
    return re.sub("[^A-Za-z0-9._-]", "-", text).strip("._-")[:_MAX_CHARACTERS].rstrip("._-") or "model"


def _model_name(value: str) -> str:
    if not is_name(value):
        raise PydanticCustomError("model_name", NAME_RULE)
    return value


ModelName = Annotated[
    str,
    AfterValidator(_model_name),
    WithJsonSchema({"type": "string", "pattern": f"^{NAME_PATTERN}$", "maxLength": 64}),
]
