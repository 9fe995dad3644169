"""An idempotency key and the submission that it stands for."""

import hashlib
from typing import Self

import orjson

from service.domain.trace_request import TraceRequest
from tracehouse.frozen import Frozen
from tracehouse.spec.trace_spec import json_text


class Idempotency(Frozen):
    """A key may not be used again with other `content`."""

    key: str
    content: str

    @classmethod
    def of(cls, key: str, request: TraceRequest) -> Self:
        """Make the key of a request from what was submitted alone.

        Of the request's content, a release and its versions are a part. A submission is sent again across an update
        too, and then no release may take it for another one.
        """
        submitted = {
            "spec": orjson.Fragment(json_text(request.spec, exclude_defaults=True)),  # without what is new in a release
            "files": {name: request.files[name].digest for name in sorted(request.files)},
            "continues": request.continues,
        }
        return cls(key=key, content="sha256:" + hashlib.sha256(orjson.dumps(submitted)).hexdigest())
