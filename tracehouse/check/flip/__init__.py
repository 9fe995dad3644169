"""The flip layer: whether a trace changes if Python reads another value out of a tensor."""
