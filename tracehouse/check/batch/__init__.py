"""Rows: whether those of a batch see one another."""
