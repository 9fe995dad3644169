"""Flip: whether another value, in the place of one that Python read out of a tensor, leads to another trace."""
