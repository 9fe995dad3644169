"""What a submission of the client sends as its source."""

import io
import zipfile

from tracehouse.client.submission import Submission


def packed_files(submission: Submission) -> dict[str, bytes]:
    """The files in the archive that is sent; none if there is no archive."""
    packed = submission.uploads.get("source.zip")
    if packed is None:
        return {}
    assert isinstance(packed, bytes)
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def files_of(submission: Submission) -> dict[str, bytes]:
    """All files by their paths, whether sent as text or in the archive."""
    texts = submission.source.get("files", {})
    return dict(sorted({**packed_files(submission), **{path: text.encode() for path, text in texts.items()}}.items()))
