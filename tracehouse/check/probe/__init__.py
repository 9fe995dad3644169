"""The probe layer: the eager model and the artifact are called on other values, and differences are shrunk."""
