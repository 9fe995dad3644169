"""Flipping: whether another value, where Python read one out of a tensor, would have made another trace."""
