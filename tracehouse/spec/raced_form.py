"""Raced forms: what torch can make of a loaded archive to answer faster, tried on the machine that serves.

A further form gets a name here and is made in `tracehouse.forms.raced`; nothing else knows one form from another.
"""

from enum import StrEnum


class RacedForm(StrEnum):
    """The forms, in the order in which they are tried."""

    FREEZE = "freeze"
    OPTIMIZE_FOR_INFERENCE = "optimize_for_inference"
    ONEDNN_FUSION = "onednn_fusion"
