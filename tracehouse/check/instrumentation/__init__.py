"""Instrumentation: records what a call reads, of tensors, of the process and of the model, and what it leaves there."""
