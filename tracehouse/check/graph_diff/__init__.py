"""Graphs: what a trace computes, in a form in which two can be compared, and the lines at fault where they part."""
