"""An eager run: the request's calls run on the eager model with the JIT off, as by PYTORCH_JIT=0. Nothing is traced."""

from collections.abc import Iterable
from contextlib import ExitStack

from service.domain.eager_outputs import EagerResult, iter_file_bytes
from service.storage.blobs import StagedBlob
from tracehouse.spec.trace_spec import TraceSpec
from workers.processes.children import Children
from workers.processes.eager import REFERENCE, EagerProcess


def run(spec: TraceSpec, children: Children) -> list[EagerResult]:
    """Return what each call returned, the check inputs' too. Raises TraceError for the first call that raises."""
    device = spec.devices[0]
    returned: list[EagerResult] = []
    with ExitStack() as stack:
        child = children.fork(stack, REFERENCE, device, printing=True)
        eager = EagerProcess(child, children.limits, children.cancellation, children.until, children.printed_log)
        eager.start(children.trace_message(device, spec.conversion, children.limits.threads))
        for call, answer in eager.runs(spec):
            outputs = list(answer.answer.leaves.values())
            returned.append(EagerResult(call.method, call.case, answer.answer.returns, outputs))
        children.wait_for_exit(child)
    return returned


def write(returned: Iterable[EagerResult], file: StagedBlob) -> None:
    for piece in iter_file_bytes(returned):
        file.write(piece)
