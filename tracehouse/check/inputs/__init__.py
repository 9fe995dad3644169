"""Inputs like the example's: of other values, layouts and sizes."""
