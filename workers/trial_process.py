"""Trial processes: an artifact loaded in the jail in which it would serve, to be asked and timed beside its runner."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import quantiles

from safetensors import SafetensorError

from service.protocol.bounds import MESSAGE_MAX_BYTES
from service.protocol.runner import Load
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.storage.blobs import Blobs
from tracehouse.artifact.manifest import Artifact
from tracehouse.differential import golden
from tracehouse.errors import ContractViolation, LimitExceeded, TraceError
from tracehouse.spec.raced_form import RacedForm
from workers.limits import TraceLimits
from workers.processes.artifact import RUNNER, ArtifactProcess
from workers.race_calls import RaceCalls

_TEXT_MAX_CHARACTERS = 500


class TrialProcesses:
    """Starts processes. `limits` are those of each."""

    def __init__(self, zygote: Zygote, blobs: Blobs, limits: TraceLimits) -> None:
        self._zygote = zygote
        self._blobs = blobs
        self._limits = limits

    def load(
        self,
        stack: ExitStack,
        artifact: Artifact,
        cancellation: Cancellation,
        until: float,
        *,
        form: RacedForm | None = None,
        threads: int | None = None,
        refuses_steps: bool = False,
    ) -> ArtifactProcess:
        """Return a process that has loaded the artifact in this form, and replayed its golden cases.

        With `refuses_steps`, it fails if a number that is rounded otherwise may be another answer. The stack ends it.
        Raises a ServiceError if a file is missing, or nothing can be forked.
        """
        with ExitStack() as opened:
            blobs = artifact.archive, artifact.golden
            files = [opened.enter_context(self._blobs.open(blob.digest)).fileno() for blob in blobs]
            child = self._zygote.fork(
                RUNNER,
                self._limits.for_child(artifact.device),
                files,
                profile="infer",
                log_max_bytes=4000,
                header_max_bytes=MESSAGE_MAX_BYTES,
                imports=() if form is None else form.imports,
            )
        stack.enter_context(child)
        stack.enter_context(cancellation.calls(child.kill))
        process = ArtifactProcess(child, self._limits, cancellation, until)
        process.start_with(
            Load(
                contract=artifact.contract,
                device=artifact.device,
                served_form=artifact.served_form,
                gradients=False,
                tolerance=golden.replay_tolerance(artifact.check.tolerance),
                threads=self._limits.threads if threads is None else threads,
                raced_form=form,
                form_tolerance=artifact.check.tolerance,
                refuses_steps=refuses_steps,
            )
        )
        process.wait()
        return process

    def calls(self, artifact: Artifact, method: str) -> RaceCalls:
        """Return the calls of a method. Raises ValueError if none can be made of the golden cases."""
        with self._blobs.open(artifact.golden.digest) as file:
            try:
                cases = golden.read(os.dup(file.fileno()))
                inputs = [case.inputs for case in cases if case.method == method]
                contract = artifact.contract.method(method)
                return RaceCalls(method, contract, inputs, int.from_bytes(os.urandom(4)))
            except (SafetensorError, KeyError, ValueError, ContractViolation) as error:
                raise ValueError(f"no calls can be made of the golden cases: {error}") from error


def why_ended(error: TraceError, done: str, wall_s: float) -> str:
    """Return why a trial ended with this error. `wall_s` is its limit, and `done` what it was to do: "timed"."""
    if isinstance(error, LimitExceeded) and error.facts.get("limit") == "wall":
        return f"it was not {done} to the end within {wall_s:g} s"
    return error.detail


def shorten(text: str) -> str:
    """Return the end of a long reason, which says most."""
    return text if len(text) <= _TEXT_MAX_CHARACTERS else "... " + text[-_TEXT_MAX_CHARACTERS:]


def time_of(call: Callable[[], object]) -> float:
    """Make the call, and return how long it took."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def lower_quartile(times: Sequence[float]) -> float:
    """Others on the machine make a call longer, and never shorter."""
    return quantiles(times, n=4)[0]
