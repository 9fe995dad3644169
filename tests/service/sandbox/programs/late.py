"""A module that a child imports, and its zygote does not."""
