"""Sizing: which sizes may vary, which of them together, and what the artifact answers there."""
