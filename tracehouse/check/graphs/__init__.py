"""The graphs layer: which sizes may vary, which of them only together, and what the trace baked in of the example."""
