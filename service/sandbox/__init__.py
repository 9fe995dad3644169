"""Confined child processes: how they are started, jailed, talked to and ended."""
