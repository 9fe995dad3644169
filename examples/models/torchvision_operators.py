"""Import this before anything that imports torchvision, where torchvision's compiled operators do not load.

PyPI's torchvision beside the CPU build of torch is such a pair. Its import only insists on two operators; they are
declared here and have no implementation, so a model that calls one gets an error, never a wrong result.
Without torchvision, or beside one that matches torch, this does nothing and can be left out.
"""

import sys

import torch

try:
    import torchvision  # noqa: F401
except ModuleNotFoundError:
    pass
except RuntimeError as error:
    if "torchvision::nms does not exist" not in str(error):
        raise
    for operator in ("nms", "qnms"):
        torch.library.define(f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    # The failed import left submodules of a package that is gone; the next import has to load them anew.
    for module in [name for name in sys.modules if name.startswith("torchvision.")]:
        del sys.modules[module]
