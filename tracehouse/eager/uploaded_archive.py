"""An uploaded TorchScript archive, which is the model itself: there is no eager one."""

from typing import BinaryIO

import torch

from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory_error
from tracehouse.eager.model import LoadedModel
from tracehouse.errors import ArchiveUnreadable
from tracehouse.findings import submissions
from tracehouse.findings.finding import Finding
from tracehouse.introspection import user_lines
from tracehouse.torch_values import script_archives


def load(file: BinaryIO, name: str) -> LoadedModel:
    """Load the archive on the CPU, in the mode in which it was saved. Raises ArchiveUnreadable."""
    try:
        return LoadedModel(script_archives.load(file, "cpu"))
    except Exception as error:  # for a file that is no archive, torch raises errors of many kinds
        if is_out_of_memory(error):
            raise out_of_memory_error(error) from error
        first = user_lines.error_text(error).strip().partition("\n")[0]
        raise ArchiveUnreadable(f"{name!r} cannot be loaded: {first}", file=name) from error


def findings(module: torch.jit.ScriptModule) -> list[Finding]:
    """Return the findings about an artifact that was not made here."""
    in_train_mode = getattr(module, "training", False)  # a frozen module has no mode
    return [submissions.no_eager_model(), *([submissions.saved_in_train_mode()] if in_train_mode else [])]
