"""The registry: a model's integer versions, one artifact per device each, and aliases that point at them."""

import re
from datetime import datetime
from typing import Self

from pydantic import Field

from service.domain.errors import InvalidName
from service.domain.promotion import Promotion
from service.domain.serving_options import ServingOptions
from tracehouse.findings.verdict import Verdict
from tracehouse.frozen import Frozen
from tracehouse.spec.model_name import NAME_PATTERN, is_name

_VERSION = re.compile(r"[1-9][0-9]{0,8}")


class Bucket(Frozen):
    """One of several artifacts for a device, each of which is for other sizes of its symbols."""

    device: str
    sizes: dict[str, int]
    digest: str


class ModelVersion(Frozen):
    """One version, which one trace request made and which never changes.

    `artifacts` maps a device to an artifact's digest; with `buckets`, to the digest of the first. `withdrawn` has those
    of its artifacts that a later check refuted, with the trace request of that check. `promotion` says whether it
    became the default version at once; None if an earlier release registered it.
    """

    version: int
    artifacts: dict[str, str]
    buckets: list[Bucket] = []
    withdrawn: dict[str, str] = {}
    verdict: Verdict
    trace_request: str
    promotion: Promotion | None = None
    created_at: datetime

    @property
    def usual_device(self) -> str:
        """The device whose artifacts answer where none is named: the CPU, if it was traced for that."""
        return min(self.artifacts)

    def artifacts_for(self, device: str) -> list[Bucket]:
        """Return what answers on a device of the version: one artifact for all sizes, or one for each of several."""
        buckets = [bucket for bucket in self.buckets if bucket.device == device]
        return buckets or [Bucket(device=device, sizes={}, digest=self.artifacts[device])]


class MovedBack(Frozen):
    """A move of an alias or of the default version, back to the version before, by the live check."""

    version: int = Field(description="The version that it pointed at before.")
    different: int = Field(description="So many answers of that version were not those of the model.")
    at: datetime


class Moved(Frozen):
    """A reference, `name` or `name@alias`, that was moved back to a version."""

    reference: str
    version: int


class Alias(Frozen):
    """A movable pointer to a version. `revision` grows with each move: a move names the state it replaces.

    After `move_back_after` answers that are not those of the model, the live check moves it to `move_back_to`, once.
    `moved_back` says that this was the last move.
    """

    alias: str
    version: int
    revision: int
    move_back_after: int | None = None
    move_back_to: int | None = None
    moved_back: MovedBack | None = None

    @property
    def etag(self) -> str:
        return f'"{self.revision}"'


class Model(Frozen):
    """A name with its versions and aliases. The default version answers if neither a version nor an alias is named.

    The live check moves the default version back as it moves an alias back.
    """

    name: str
    default_version: int | None
    move_back_after: int | None = None
    move_back_to: int | None = None
    moved_back: MovedBack | None = None
    serving: ServingOptions = ServingOptions()
    versions: list[ModelVersion]
    aliases: list[Alias] = []


class ModelRef(Frozen):
    """`name`, `name@alias` or `name:version`, as an inference request writes it."""

    name: str
    alias: str | None = None
    version: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a reference. Raises InvalidName."""
        name, at, alias = text.partition("@")
        name, colon, version = (name, "", "") if at else text.partition(":")
        _check(name, "model")
        if at:
            _check(alias, "alias")
            return cls(name=name, alias=alias)
        if not colon:
            return cls(name=name)
        if not _VERSION.fullmatch(version):
            raise InvalidName("a version is a positive integer", name=version[:80])
        return cls(name=name, version=int(version))


def _check(name: str, what: str) -> None:
    if not is_name(name):
        raise InvalidName(f"this is not a valid {what} name", name=name[:80], pattern=NAME_PATTERN)
