"""Who works on which trace request, and when."""
