"""Graph diff: where the graphs of two traces of one model diverge, and the line at fault."""
