"""BlobRef: bytes named by their SHA-256."""

from pydantic import Field

from tracehouse.frozen import Frozen

DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"


class BlobRef(Frozen):
    """Bytes that are kept: their SHA-256, and how many they are."""

    digest: str = Field(pattern=DIGEST_PATTERN)
    byte_size: int = Field(ge=0)
