"""TorchScript forms: a module as it was traced, frozen, or optimized for inference."""

from collections.abc import Iterable

import torch

from tracehouse.spec.trace_spec import ServedForm


def convert(module: torch.jit.ScriptModule, form: ServedForm | None, methods: Iterable[str]) -> torch.jit.ScriptModule:
    """Return the module in the form that is served; with None, the module itself.

    Besides `forward`, the form keeps these `methods`. Raises whatever torch raises if a module has no such form.
    """
    others = [name for name in methods if name != "forward"]
    match form:
        case "optimize_for_inference":
            module = torch.jit.optimize_for_inference(module, others)
        case "freeze":
            module = torch.jit.freeze(module, preserved_attrs=others)
    return module
