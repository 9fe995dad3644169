"""A blob reference: the digest of stored bytes, and how many they are."""

from pydantic import Field

from tracehouse.frozen import Frozen

DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"


class BlobRef(Frozen):
    """Stored bytes, named by their SHA-256."""

    digest: str = Field(pattern=DIGEST_PATTERN)
    byte_size: int = Field(ge=0)
