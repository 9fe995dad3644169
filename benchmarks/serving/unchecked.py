"""The service without the contract: as `tracehouse`, but it looks at the first request to a method only.

What a request costs here and does not cost there is what its check costs. Never serve with it.
"""

from collections.abc import Sequence

from service.cli import main
from service.serving.served_method import Accepted, ServedMethod
from tracehouse.tensors.tensor import Tensor

_checked = ServedMethod.accept
_first: dict[ServedMethod, Accepted] = {}


def accept(method: ServedMethod, sent: Sequence[Tensor]) -> Accepted:
    """Take what was sent as it is, in its order."""
    first = _first.get(method)
    if first is None:
        first = _first[method] = _checked(method, sent)
    return Accepted(first.place, [*sent], first.warnings, first.rows, first.joining, first.answer_bytes)


if __name__ == "__main__":
    ServedMethod.accept = accept  # type: ignore[method-assign]
    main()
