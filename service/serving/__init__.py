"""Runners as the API process sees them."""
