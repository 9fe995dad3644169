"""Checkpoint keys: where in a file of weights a state dict is.

A key names the dicts from the outermost to the innermost, joined by dots: `state_dict`, or `state.model`. The key of a
file that is itself a state dict is empty.
"""

# Training scripts save a state dict under these names, beside other things.
USUAL_NAMES = (
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "net",
    "module",
    "params",
    "weights",
    "ema",
    "ema_state_dict",
    "model_ema",
    "params_ema",
    "shadow",
)


def is_usual(key: str) -> bool:
    """Whether a state dict under that key is taken without being asked for, if it is the only one."""
    return not key or all(name in USUAL_NAMES for name in key.split("."))
