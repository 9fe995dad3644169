"""A confined child and what is said to it."""
