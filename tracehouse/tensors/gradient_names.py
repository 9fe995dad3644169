"""Gradient names: how the gradients of inputs and parameters are named among the tensors of an answer."""

# A gradient is named `grad.input.<name>` or `grad.parameter.<name>`.
GRADIENT_PREFIX = "grad."
