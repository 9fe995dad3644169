"""An eager run: the request's calls of the eager model as it stands, as PYTORCH_JIT=0 has it. Nothing is traced."""

from collections.abc import Iterable
from contextlib import ExitStack

from service.domain.eager_outputs import Returned, pieces
from service.storage.blobs import Staged
from tracehouse.spec.trace_spec import TraceSpec
from workers.processes.children import Children
from workers.processes.eager import REFERENCE, EagerProcess


def run(spec: TraceSpec, children: Children) -> list[Returned]:
    """What each call returned, the check inputs' too. Raises TraceError for the first that raised."""
    device = spec.devices[0]
    returned: list[Returned] = []
    with ExitStack() as while_it_lives:
        child = children.forked(while_it_lives, REFERENCE, device, printing=True)
        eager = EagerProcess(child, children.limits, children.cancellation, children.until, children.printed)
        eager.start(children.told_to_trace(device, spec.way, children.limits.threads))
        for call, answer in eager.runs(spec):
            outputs = list(answer.answer.leaves.values())
            returned.append(Returned(call.method, call.case, answer.answer.returns, outputs))
        children.let_end(child)
    return returned


def write(returned: Iterable[Returned], file: Staged) -> None:
    for piece in pieces(returned):
        file.write(piece)
