"""A repeated body: what a client sends again and again, in which only the values of its one tensor change.

What stands around the values says what it said before, so that only they are read again.
"""

import re
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from tracehouse.tensors.tensor import Datatype, Tensor, pack

# Of a body that is remembered for its connection, the bytes around the values. Those of usual clients have a hundred.
_AROUND_MAX_BYTES = 2048
_DATA = re.compile(rb'"data"\s{0,100}:\s{0,100}\[')
# So many bodies are remembered that no other was like: a client may send an id with each.
_TRIES = 4

Asked = TypeVar("Asked")


@dataclass(frozen=True, slots=True)
class RepeatedBody:
    """The bytes before and after the values, and the tensor that they gave. The values are items of a JSON list, or
    bytes that end the body.

    Where the list begins and ends between the same bytes, its items are all that can differ: JSON has no other way to
    read what stands around a list.
    """

    before: bytes
    after: bytes
    tensor: Tensor  # without its values
    byte_size: int
    in_json: bool

    @classmethod
    def of_json(cls, body: bytes, tensor: Tensor) -> "RepeatedBody | None":
        """Return what is to be remembered of a body in the protocol's form with this one tensor.

        None if its values do not stand there as one flat list beside their shape, or it has much else.
        """
        found = _DATA.search(body)
        end = body.find(b"]", found.end()) if found is not None else -1
        if found is None or end < 0 or found.end() + len(body) - end > _AROUND_MAX_BYTES:
            return None
        before, after = body[: found.end()], body[end:]
        if not _is_only_list(orjson.loads(body), before + after):
            return None
        return cls(before, after, _without_values(tensor), len(tensor.data), in_json=True)

    @classmethod
    def of_binary(cls, json: bytes, tensor: Tensor) -> "RepeatedBody | None":
        """Return what is to be remembered of a body that ends with the bytes of its one tensor, after JSON, if any."""
        if tensor.datatype is Datatype.BOOL or len(json) > _AROUND_MAX_BYTES:  # of booleans, the bytes are looked at
            return None
        return cls(json, b"", _without_values(tensor), len(tensor.data), in_json=False)

    def read(self, body: bytes) -> Tensor | None:
        """Return the tensor of a body that differs in its values alone; None for any other.

        Raises InvalidTensor.
        """
        start, end = len(self.before), len(body) - len(self.after)
        if start > end or not body.startswith(self.before) or not body.endswith(self.after):
            return None
        tensor = self.tensor
        data: bytes | memoryview | None
        if self.in_json:
            data = _pack_items(body[start:end], tensor)
        else:
            data = memoryview(body)[start:] if end - start == self.byte_size else None
        return None if data is None else Tensor(tensor.name, tensor.datatype, tensor.shape, data)


def _is_only_list(document: Any, without_items: bytes) -> bool:
    """Whether these bytes are the document without the items of its one tensor's list, whose shape stands there."""
    inputs = document.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or "shape" not in inputs[0]:
        return False
    inputs[0]["data"] = []
    try:
        return bool(orjson.loads(without_items) == document)
    except orjson.JSONDecodeError:  # the list holds others
        return False


def _without_values(tensor: Tensor) -> Tensor:
    return Tensor(tensor.name, tensor.datatype, tensor.shape, b"")


def _pack_items(items: bytes, tensor: Tensor) -> bytes | None:
    """Return the values of a list with these items; None if they are no flat list. Raises InvalidTensor."""
    if b"[" in items or b"{" in items:
        return None
    try:
        values = orjson.loads(b"[%b]" % items)
    except orjson.JSONDecodeError:
        return None
    return pack(tensor.datatype, tensor.shape, values)


class LastBody(Generic[Asked]):
    """The last body that came with a head, and what it asked for, if the next one can be told from it."""

    def __init__(self) -> None:
        self._last: tuple[Asked, RepeatedBody] | None = None
        self._tries = _TRIES

    @property
    def may_be_repeated(self) -> bool:
        return self._tries > 0

    def read(self, body: bytes) -> tuple[Asked, Tensor] | None:
        """Return what the last body asked for, and the tensor of this one; None if they differ in more than values.

        Raises InvalidTensor.
        """
        if self._last is None:
            return None
        asked, repeated = self._last
        tensor = repeated.read(body)
        if tensor is None:
            return None
        self._tries = _TRIES
        return asked, tensor

    def remember(self, asked: Asked, repeated: RepeatedBody | None) -> None:
        self._last = None if repeated is None else (asked, repeated)
        self._tries -= 1
