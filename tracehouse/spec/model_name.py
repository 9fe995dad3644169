"""Model names: what a name in the registry may look like."""

import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

# No slash, @ or colon: `name@alias` and `name:version` must be unambiguous, also in a URL.
NAME_PATTERN = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?"

NAME_RULE = "a name is 1 to 64 letters, digits, '.', '_' or '-', with a letter or digit at both ends"

_NAME = re.compile(NAME_PATTERN)


def is_name(text: str) -> bool:
    """Whether a model, an alias or an environment may have this name."""
    return _NAME.fullmatch(text) is not None


def _model_name(value: str) -> str:
    if not is_name(value):
        raise PydanticCustomError("model_name", NAME_RULE)
    return value


ModelName = Annotated[
    str,
    AfterValidator(_model_name),
    WithJsonSchema({"type": "string", "pattern": f"^{NAME_PATTERN}$", "maxLength": 64}),
]
