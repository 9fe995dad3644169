"""A runner that needs no torch, in place of the real one."""
