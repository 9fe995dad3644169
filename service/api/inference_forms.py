"""The forms of inference: JSON, and tensors as bytes, alone or in a file, on the way in and on the way out.

The content type says which form a request has, and `Accept` which one its reply has. A file has tensors under the names
of the contract; a form of one tensor alone is for methods, or for requests, that have just one.
"""

from enum import StrEnum


class Form(StrEnum):
    """A form, by its media type. numpy and safetensors have registered none: these are what others use."""

    JSON = "application/json"
    SAFETENSORS = "application/vnd.safetensors"
    NPZ = "application/x-npz"
    NPY = "application/x-npy"
    BYTES = "application/octet-stream"

    # These two are forms of requests alone.
    PNG = "image/png"
    JPEG = "image/jpeg"

    @property
    def has_one_tensor(self) -> bool:
        """Whether it has one tensor alone, without its name."""
        return self in (Form.NPY, Form.BYTES)

    @property
    def is_picture(self) -> bool:
        return self in (Form.PNG, Form.JPEG)


BY_MEDIA_TYPE = {**{form.value: form for form in Form}, "application/x-safetensors": Form.SAFETENSORS}
REQUEST_TYPES = [*BY_MEDIA_TYPE]
REPLY_TYPES = [kind for kind, form in BY_MEDIA_TYPE.items() if not form.is_picture]
