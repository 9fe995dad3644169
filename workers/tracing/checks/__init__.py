"""The trace check: the saved archive against the eager model."""
