"""Which worker runs which trace request, and when."""
