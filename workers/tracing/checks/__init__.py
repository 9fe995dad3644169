"""The trace check: the traced model against the eager one."""
