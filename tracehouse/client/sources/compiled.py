"""A ScriptModule or ScriptFunction as a submission: it goes as the archive that torch.jit.save writes."""

import io
from typing import Any

import torch

from tracehouse.client.submission import Submission
from tracehouse.spec.model_name import name_of_object

_FILE = "model.pt"


def send_compiled(model: "torch.jit.ScriptModule | torch.jit.ScriptFunction[Any, Any]") -> Submission:
    """Return the submission of what is compiled already. It has no Python model to compare it with."""
    archive = io.BytesIO()
    torch.jit.save(model, archive)
    name = getattr(model, "original_name", None) or getattr(model, "name", None) or "model"
    return Submission(
        name=name_of_object(str(name)),
        source={"archive": _FILE},
        uploads={_FILE: archive.getvalue()},
        notes=["the model is compiled already: it is compared with itself alone, and not with the Python that it was"],
    )
