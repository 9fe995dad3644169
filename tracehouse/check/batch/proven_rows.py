"""Proven rows: whether the runs of a proof show that rows stay apart, for all numbers of rows at once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracehouse.check.batch.operator_stream import Stream
from tracehouse.check.batch.row_flow import find_mixing
from tracehouse.check.batch.row_step import Mixes
from tracehouse.check.batch.symbolic_streams import read_streams
from tracehouse.check.prove.proven_runs import ProvenRuns


@dataclass(frozen=True)
class ProvenRows:
    """Rows that stay apart. `outputs` has the dim of each output that has them, by path."""

    outputs: Mapping[str, int]
    covers_single_rows: bool  # whether it is shown too that a row alone has the same answer


def find_proven_rows(
    runs: ProvenRuns, sizes: Mapping[str, int], symbol: str, inputs: Mapping[str, int], up_to: int
) -> ProvenRows:
    """Return what the runs show of 2 to `up_to` rows, and if possible of one. Raises Mixes if rows may meet.

    The calls have these `sizes`, but for `symbol`, which is the number of rows. `inputs` have theirs in these dims.
    All of these numbers of rows must be proven, one too: the model and the artifact compute the same there.
    """
    try:
        return ProvenRows(_follow_rows(runs, sizes, symbol, inputs, range(1, up_to + 1)), covers_single_rows=True)
    except Mixes:
        # Torch may reorder the dims of a single row, or copy no memory, and so run other operators.
        if runs.run_at({**sizes, symbol: 1}) is None:
            raise
    return ProvenRows(_follow_rows(runs, sizes, symbol, inputs, range(2, up_to + 1)), covers_single_rows=False)


def _follow_rows(
    runs: ProvenRuns, sizes: Mapping[str, int], symbol: str, inputs: Mapping[str, int], counts: Iterable[int]
) -> dict[str, int]:
    """Return the dim of each output that has the rows, if so many rows stay apart. Raises Mixes if they may not."""
    streams, rows = read_streams(runs, sizes, symbol, counts)
    outputs = _find_output_dims(streams, rows)
    mixing = find_mixing(streams, rows, inputs, outputs, checks_ids=False)
    if mixing is not None:
        raise Mixes(mixing)
    return outputs


def _find_output_dims(streams: Sequence[Stream], rows: Sequence[int]) -> dict[str, int]:
    """Return for each output the dim whose size is the number of rows. Raises Mixes if one has no such dim."""
    paths = streams[0].outputs.keys()
    if not paths or any(one.outputs.keys() != paths for one in streams):
        raise Mixes("which tensors are returned depends on the number of rows")
    dims = {}
    for path in paths:
        shapes = [one.outputs[path].shape for one in streams]
        if len({*map(len, shapes)}) > 1:
            raise Mixes(f"the dims of {path!r} depend on the number of rows")
        moved = [dim for dim, sizes in enumerate(zip(*shapes, strict=True)) if len({*sizes}) > 1]
        if [[shape[dim] for shape in shapes] for dim in moved] != [[*rows]]:
            raise Mixes(f"{path!r} has no rows")
        dims[path] = moved[0]
    return dims
