"""Inputs: variations of the example, with other values and other layouts in memory."""
