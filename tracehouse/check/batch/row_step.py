"""Row step: one operator in the calls with several numbers of rows, and what is known of the tensors that it takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracehouse.check.batch.operator_stream import Operation, Tensor
from tracehouse.check.batch.row_states import Fixed, Mixed, Place, Rows, State, find_growing_dims, locate


class Mixes(Exception):
    """The operator may mix rows. The text says how."""


@dataclass(frozen=True)
class Step:
    """An operator as `runs` called it, for each of the numbers of rows. `states` has the state of tensors by number."""

    runs: Sequence[Operation]
    rows: Sequence[int]
    states: Mapping[int, State]

    @property
    def operation(self) -> Operation:
        return self.runs[0]

    @property
    def outputs(self) -> list[Tensor]:
        return self.operation.outputs

    def value(self, name: str) -> Any:
        """Return an argument; None if the call left it out."""
        return self.operation.arguments.get(name, self._find_default(name))

    def tensor(self, name: str) -> Tensor:
        found: Tensor = self.operation.arguments[name]
        return found

    def state(self, tensor: Tensor) -> State:
        return self.states[tensor.number]

    def has_rows(self, name: str) -> bool:
        tensor = self.value(name)
        return isinstance(tensor, Tensor) and isinstance(self.state(tensor), Rows)

    def place(self, tensor: Tensor) -> Place:
        """Return where the rows of this tensor are. Raises Mixes if they are spread over dims, or there are none."""
        state = self.state(tensor)
        found = locate(state.stride, tensor.shape, self.rows[0]) if isinstance(state, Rows) else None
        if found is None:
            raise Mixes("rows are spread over several dims")
        return found

    def require_same_arguments(self) -> None:
        """Raise Mixes if an argument that is no tensor depends on the number of rows."""
        if any(_without_tensors(one.arguments) != _without_tensors(self.operation.arguments) for one in self.runs):
            raise Mixes("its arguments depend on the number of rows")

    def require_no_rows(self, *names: str) -> None:
        """Raise Mixes if one of these arguments depends on rows, or on how many there are."""
        for name in names:
            tensor = self.value(name)
            if isinstance(tensor, Tensor) and self.state(tensor) not in (Fixed.CONSTANT, Fixed.UNIFORM):
                raise Mixes(f"its {name} depends on the rows")

    def find_growth(self, output: int) -> list[int]:
        """Return the dims of an output that grow with the number of rows. Raises Mixes if they grow otherwise."""
        grows = find_growing_dims([one.outputs[output].shape for one in self.runs], self.rows)
        if grows is None:
            raise Mixes("sizes are no multiple of the number of rows")
        return grows

    def give_rows(self, output: int, dim: int, inner: int) -> State:
        """Return the state of an output with rows at this place. Raises Mixes unless that dim alone grows with them."""
        shape = self.outputs[output].shape
        dim %= len(shape) or 1
        if dim >= len(shape) or shape[dim] % (inner * self.rows[0]) or self.find_growth(output) != [dim]:
            raise Mixes("sizes depend on the number of rows")
        return Rows(Place(dim, inner, shape[dim] // (inner * self.rows[0])).stride(shape))

    def _find_default(self, name: str) -> Any:
        declared = self.operation.operator._schema.arguments
        return next((one.default_value for one in declared if one.name == name and one.has_default_value()), None)


def explain(step: Step, why: Mixes) -> Mixed:
    return Mixed(f"{step.operation.operator._schema.name.replace('::', '.')} may mix rows: {why}")


def _without_tensors(value: Any) -> Any:
    if isinstance(value, Tensor):
        return None
    if isinstance(value, Mapping):
        return {name: _without_tensors(one) for name, one in value.items()}
    return [_without_tensors(one) for one in value] if isinstance(value, list | tuple) else value
