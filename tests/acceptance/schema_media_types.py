"""What schemathesis loads as its hooks: the media types of tensors, whose bodies are bytes."""

import schemathesis

from service.api.inference_forms import REQUEST_TYPES

schemathesis.serializer.alias([kind for kind in REQUEST_TYPES if "safetensors" in kind or "/x-" in kind],
                              "application/octet-stream")  # fmt: skip
