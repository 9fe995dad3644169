"""Sizes: whether a part of what an archive computes may be empty, where no input is.

Of no numbers there is no mean. And oneDNN's fused product of matrices is not 0 where it sums up nothing, but whatever
was in the memory before.
"""

from collections.abc import Callable
from typing import Any

import torch

from tracehouse.forms.operators import TO_THE_END, held_values, known_of, name_of

_Known = dict[str, Any]
_PASSED_ON = {"prim::NumToTensor", "aten::Int", "aten::IntImplicit", "aten::ScalarImplicit"}


def find_emptying(module: torch.jit.ScriptModule) -> str | None:
    """Return the first operator of the graph of `forward`, without blocks, that may give nothing of something; None if
    there is none."""
    held = held_values(module)
    for node in module.inlined_graph.nodes():
        given = [one.debugName() for one in node.inputs()]
        # No size of what is not empty is 0. It stands for all that it may be here: 1 is the least.
        if node.kind() == "aten::size" and node.inputsSize() == 2:
            held[node.output().debugName()] = 1
        elif node.kind() in _PASSED_ON and given[0] in held:
            held[node.output().debugName()] = held[given[0]]
        elif node.kind() == "prim::ListConstruct" and all(one in held for one in given):
            held[node.output().debugName()] = [held[one] for one in given]
        gives_some = _GIVES_SOME.get(name_of(node)) if node.kind().startswith("aten::") else None
        if gives_some is not None and not gives_some(known_of(node, held)):
            return node.kind()
        if node.kind() == "aten::where" and len(given) == 1:  # the places at which something is true
            return node.kind()
    return None


def _takes_some(known: _Known) -> bool:
    if not {"start", "end"} <= known.keys():
        return False
    start = 0 if known["start"] is None else known["start"]
    end = TO_THE_END if known["end"] is None else known["end"]
    return bool((start == 0 and end >= 1) or (start < 0 and end == TO_THE_END))


def _picks_some(known: _Known) -> bool:
    """Whether no index may be a mask in which nothing is true."""
    if "indices" not in known:
        return False
    tensors = [one for one in known["indices"] if isinstance(one, torch.Tensor)]
    return all(bool(one.any()) if one.dtype in (torch.bool, torch.uint8) else one.numel() > 0 for one in tensors)


def _has_no_zero(name: str) -> Callable[[_Known], bool]:
    def has_no_zero(known: _Known) -> bool:
        sizes = known.get(name)
        return 0 not in sizes if isinstance(sizes, list) else isinstance(sizes, int) and sizes > 0

    return has_no_zero


def _counts_some(known: _Known) -> bool:
    return "start" not in known and "step" not in known and _has_no_zero("end")(known)


def _takes_nothing_off(known: _Known) -> bool:
    return "pad" in known and min(known["pad"], default=0) >= 0


def _never(_: _Known) -> bool:
    return False


# Operators that may give nothing, unless this is true of what is known of their arguments.
_GIVES_SOME: dict[str, Callable[[_Known], bool]] = {
    **dict.fromkeys(("zeros", "ones", "full", "empty", "expand", "broadcast_to"), _has_no_zero("size")),
    **dict.fromkeys(("new_zeros", "new_ones", "new_full", "new_empty"), _has_no_zero("size")),
    **dict.fromkeys(("pad", "constant_pad_nd"), _takes_nothing_off),
    **dict.fromkeys(("masked_select", "nonzero", "nonzero_numpy", "argwhere", "repeat_interleave"), _never),
    **dict.fromkeys(("diagonal", "linspace", "range", "as_strided", "resize"), _never),
    **dict.fromkeys(("triu_indices", "tril_indices", "bincount"), _never),
    "arange": _counts_some,
    "repeat": _has_no_zero("repeats"),
    "tile": _has_no_zero("dims"),
    "slice": _takes_some,
    "index": _picks_some,
    "narrow": _has_no_zero("length"),
    "split": _has_no_zero("split_size"),
    "split_with_sizes": _has_no_zero("split_sizes"),
    "topk": _has_no_zero("k"),
}
