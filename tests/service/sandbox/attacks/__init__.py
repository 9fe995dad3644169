"""Attacks on the jail, by kind: a module each. `attack.py` says how one is written."""

from attacks import (
    archives,
    crashes,
    descriptors,
    files,
    floods,
    kernel,
    memory,
    processes,
    resources,
    signals,
    site_packages,
    sockets,
)

KINDS = [
    archives,
    crashes,
    descriptors,
    files,
    floods,
    kernel,
    memory,
    processes,
    resources,
    signals,
    site_packages,
    sockets,
]
