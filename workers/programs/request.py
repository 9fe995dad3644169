"""The request as a program reads it: a `Trace` message made into the submission that it loads."""

from collections.abc import Sequence

from service.protocol.tracer import Trace
from tracehouse.eager.submission import SubmissionLoader


def make_submission(request: Trace, files: Sequence[int]) -> SubmissionLoader:
    """Return the submission of this request; `files` are the descriptors that the program was started with."""
    descriptors = {name: files[place] for name, place in request.files.items()}
    return SubmissionLoader(
        request.spec, request.conversion, request.device, descriptors, source_max_bytes=request.source_max_bytes
    )
