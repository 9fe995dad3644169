"""Patterned calls: inputs that a model refused, changed such that they show the patterns of the example's values.

A model may take sorted lengths, one-hot rows or probabilities alone, and values drawn at random are none of these.
"""

from tracehouse.differential import random_inputs
from tracehouse.eager.call import Call
from tracehouse.torch_values.tensors import pack, unpack


def keep_patterns(example: Call, call: Call) -> Call | None:
    """Return the call with values that are sorted, say, if the example's are; None if that changes nothing."""
    own, drawn = pack(example.tensors), pack(call.tensors)
    if len(own) < len(example.tensors) or len(drawn) < len(call.tensors):
        return None  # a tensor without a datatype
    kept = random_inputs.keep_patterns(own, drawn)
    if kept in (drawn, own):
        return None
    devices = {name: tensor.device for name, tensor in call.tensors.items()}
    return call.with_tensors({name: tensor.to(devices[name]) for name, tensor in unpack(kept).items()})
