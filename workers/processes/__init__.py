"""Processes: each kind of child, as its parent sees it."""
