"""An uploaded TorchScript archive: the model itself, for there is no eager one."""

from typing import BinaryIO

import torch

from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory
from tracehouse.eager.model import Model
from tracehouse.errors import ArchiveUnreadable
from tracehouse.findings.kinds import Kind
from tracehouse.findings.trace_check import Finding
from tracehouse.introspection import user_lines


def load(file: BinaryIO, name: str) -> Model:
    """In the mode in which it was saved. Raises ArchiveUnreadable."""
    try:
        module: torch.jit.ScriptModule = torch.jit.load(file, map_location="cpu")
    except Exception as error:  # what torch raises for a file that is none is of many kinds
        if is_out_of_memory(error):
            raise out_of_memory(error) from error
        first = user_lines.text_of(error).strip().partition("\n")[0]
        raise ArchiveUnreadable(f"{name!r} cannot be loaded: {first}", file=name) from error
    return Model(module)


def findings(module: torch.jit.ScriptModule) -> list[Finding]:
    """What is to be known of an artifact that was not made here."""
    in_train_mode = getattr(module, "training", False)  # a frozen one has no mode
    return [_no_eager_model(), *([_in_train_mode()] if in_train_mode else [])]


def _no_eager_model() -> Finding:
    return Finding(
        kind=Kind.NO_EAGER_MODEL,
        detail="an archive was uploaded, and there is no eager model: it was compared with itself, in another process "
        "and in the form that is served, and its graphs were read for what they keep and draw. That tells whether it "
        "answered the same each time on the inputs that were tried; what it answers on others, and whether it is right "
        "for the model that it was made of, it cannot tell",
        remedy="submit the model's source in place of the archive",
    )


def _in_train_mode() -> Finding:
    return Finding(
        kind=Kind.SAVED_IN_TRAIN_MODE,
        detail="the archive was saved in train mode, and is served as it was uploaded",
        confirmed=True,
        remedy="call eval() on the model before torch.jit.save",
    )
