"""A pending call: what one request asks of a runner, and which calls may be asked together."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from service.protocol.calls import Call
from tracehouse.tensors.tensor import Tensor

# Beyond it, joining gains little, and copies much.
JOINED_MAX_BYTES = 1024 * 1024

Answer = list[Tensor] | Exception


class CallLeft(Exception):
    """Nobody waited for the answer any more when the call's turn came."""


@dataclass(frozen=True, slots=True)
class Joining:
    """How a call may be joined with others: those with an equal `key`, as long as `takes` their rows together.

    It stands on the batch certificate of the artifact's contract.
    """

    key: Hashable
    rows: int
    takes: Callable[[int], bool]


@dataclass(eq=False, slots=True)
class PendingCall:
    """`inputs` are in the contract's order. `finish` is called once, with the outputs or with an error.

    With a `seed`, random numbers are drawn after it. With `row_counts`, the artifact is called with one of these
    numbers of rows, as is what it is joined with. `on_turn` is called when the call is sent to a
    runner: with True, unless it was joined to another one.
    """

    method: str
    inputs: Sequence[Tensor]
    finish: Callable[[Answer], object]
    seed: int | None = None
    on_turn: Callable[[bool], object] = lambda _: None
    joining: Joining | None = None
    row_counts: Sequence[int] = ()
    is_left: bool = field(default=False, init=False)  # nobody waits for the answer any more
    has_lost_a_runner: bool = field(default=False, init=False)
    on_leave: Callable[["PendingCall"], object] = field(default=lambda _: None, init=False)

    def leave(self) -> None:
        """Say that nobody waits for the answer any more: a call that waits is not asked."""
        self.is_left = True
        self.on_leave(self)

    def end(self, answer: Answer) -> None:
        """Hand out the answer. `finish` is forgotten, because it may hold this call and the answer.

        Objects that hold each other stay until the garbage collector comes, which counts objects and not their bytes.
        """
        finish, self.finish = self.finish, lambda _: None
        finish(answer)

    @property
    def byte_size(self) -> int:
        return sum(len(one.data) for one in self.inputs)


class Group:
    """Calls that are asked as one."""

    def __init__(self, first: PendingCall) -> None:
        self.calls = [first]
        self._rows = 0 if first.joining is None else first.joining.rows
        self._byte_size = 0 if first.joining is None else first.byte_size

    def join(self, other: PendingCall) -> bool:
        """Add another call if it may be joined; whether it was."""
        first, ours, theirs = self.calls[0], self.calls[0].joining, other.joining
        if ours is None or theirs is None or (first.method, ours.key) != (other.method, theirs.key):
            return False
        if first.has_lost_a_runner or other.has_lost_a_runner:  # one of them may be what ended the runner
            return False
        rows, byte_size = self._rows + theirs.rows, self._byte_size + other.byte_size
        if byte_size > JOINED_MAX_BYTES or not ours.takes(rows):
            return False
        self.calls.append(other)
        self._rows, self._byte_size = rows, byte_size
        return True

    def call(self, answer_max_bytes: int) -> tuple[Call, list[bytes | bytearray | memoryview]]:
        """Return the runner's message, and its bytes."""
        first = self.calls[0]
        if len(self.calls) == 1:
            call = Call(first.method, [*first.inputs], answer_max_bytes, first.seed, row_counts=first.row_counts)
            return call, [one.data for one in first.inputs]
        places = range(len(first.inputs))
        inputs = [Tensor(one.name, one.datatype, (self._rows, *one.shape[1:]), b"") for one in first.inputs]
        rows = [call.joining.rows for call in self.calls if call.joining is not None]
        joined = [call.inputs[place].data for place in places for call in self.calls]
        return Call(first.method, inputs, answer_max_bytes, rows=rows, row_counts=first.row_counts), joined
