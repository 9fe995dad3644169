"""Watching a call: what it reads out of tensors, asks the process for, draws, and leaves behind in the model."""
