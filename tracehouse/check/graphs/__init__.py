"""The graphs layer: which sizes may vary, which only together, and which values and sizes the trace has baked in."""
