"""A submission: what of a trace request is the model, and the files that go along."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Upload = bytes | Path


@dataclass(frozen=True)
class Submission:
    """The members of a trace request that are the model, and the files that they name.

    `name` is what the model is called if nobody says otherwise. `notes` say what was left behind or replaced,
    `packages` what the service must have, and `texts` has the Python files that were sent, by their paths.
    """

    name: str
    source: Mapping[str, Any]
    uploads: Mapping[str, Upload] = field(default_factory=dict)
    weights: Mapping[str, Any] | None = None
    training: bool | str | None = None
    notes: Sequence[str] = ()
    packages: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
