"""A runner that lies, in place of the real one."""
