"""Gradient names: how a tensor is named that is the gradient of an input or a parameter."""

# What a gradient's name begins with, in front of `input.` or `parameter.` and the name of what it is of.
GRADIENT = "grad."
