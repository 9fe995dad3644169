"""Trace requests: from a claimed row to an outcome."""
