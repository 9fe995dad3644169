"""The environment's settings, for the commands that run on them."""

import os
from pathlib import Path

from pydantic import ValidationError

from service.cli.usage_errors import refuse
from service.settings import Settings


def settings_of(state: Path | None) -> Settings:
    """Read the settings; `state` takes the place of STATE_DIR. A setting that is not valid ends the command with 2."""
    environ = dict(os.environ)
    if state is not None:
        environ["STATE_DIR"] = str(state)
    try:
        return Settings.from_environment(environ)
    except ValidationError as error:
        refuse("\n".join(f"{str(problem['loc'][0]).upper()}: {problem['msg']}" for problem in error.errors()))
