"""The handle of one trace: where it is, what it came to, and what can be done with it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from tracehouse.client import inference, requests
from tracehouse.client.connection import AsyncConnection, Connection
from tracehouse.client.errors import NotSendable
from tracehouse.client.flow import Ask, Flow, get_text
from tracehouse.client.inference import Contracts
from tracehouse.client.methods import awaitable, waiting
from tracehouse.client.notebook import page_of
from tracehouse.client.paths import trace_path
from tracehouse.client.progress import Progress
from tracehouse.client.requests import Submitted
from tracehouse.client.results import Result, first_method, read_outputs, read_result
from tracehouse.client.submission import Submission
from tracehouse.client.whole_file import written_whole
from tracehouse.contract.contract import Contract
from tracehouse.findings.finding import Finding
from tracehouse.findings.verdict import Verdict

PrintoutKind = Literal["graph", "inlined_graph", "code", "code_with_constants"]
_Self = TypeVar("_Self", bound="_Handle")


class _Handle:
    """What is known of a trace, and what can be asked of it, as flows."""

    def __init__(self, connection: Any, submitted: Submitted, contracts: Contracts) -> None:
        self._connection = connection
        self._request: Mapping[str, Any] = submitted.request
        self._submission: Submission = submitted.submission
        self._contracts = contracts
        self._result: Result | None = None
        self._code: str | None = None

    @property
    def id(self) -> str:
        """The trace request's id on the service."""
        return str(self._request["id"])

    @property
    def state(self) -> str:
        """The state when the service was last asked: queued, running, succeeded, failed or cancelled."""
        return str(self._request["state"])

    @property
    def stage(self) -> str:
        """What was being done when the service was last asked."""
        return str(self._request["stage"])

    @property
    def progress(self) -> float:
        """How far it was when the service was last asked, from 0 to 1."""
        return float(self._request["progress"])

    @property
    def notes(self) -> list[str]:
        """What of the model was left behind or replaced when it was sent."""
        return [*self._submission.notes]

    @property
    def packages(self) -> list[str]:
        """The installed packages that the model needs, which the service must have too."""
        return [*self._submission.packages]

    @property
    def sent_files(self) -> dict[str, str]:
        """The Python files that were sent, by their paths."""
        return dict(self._submission.texts)

    @property
    def url(self) -> str:
        """Where the service describes the trace request."""
        return str(self._connection.address.of(trace_path(self.id)))

    def __repr__(self) -> str:
        where = f"trace {self.id} of {self._submission.name}"
        if self._result is not None:
            return f"<{where}: {self._result.sentence}, model {self._result.model or 'not registered'}>"
        return f"<{where}: {self.state}, {self.stage}>"

    def _repr_html_(self) -> str:
        return page_of(self._request, self._submission, self._result, self._code, self._connection.address.url)

    def _refresh(self: _Self) -> Flow[_Self]:
        """Ask the service how far the trace is, and return this handle."""
        self._request = yield from requests.read(self.id)
        return self

    def _wait(self: _Self, progress: Progress = True) -> Flow[_Self]:
        """Wait until the trace has ended, however it ends, and return this handle.

        `progress` shows how far it is: true where somebody sees it, or a function that gets each event.
        """
        if self._result is None and self.state not in ("failed", "cancelled"):
            self._request = yield from requests.watch(self.id, progress)
            if self.state == "succeeded":
                self._result = yield from read_result(self._request)
                self._code = yield from self._read_code(self._result)
        return self

    def _get_result(self, progress: Progress = True) -> Flow[Result]:
        """Wait for the end, and return what the trace came to. Raises TraceFailed and TraceCancelled."""
        yield from self._wait(progress)
        if self._result is None:
            self._result = yield from read_result(self._request)
        return self._result

    def _cancel(self: _Self) -> Flow[_Self]:
        """Cancel the trace, if it has not ended."""
        self._request = yield from requests.cancel(self.id)
        return self

    def _delete(self) -> Flow[None]:
        """Delete what was sent, the log, and the artifacts that nothing else has. Raises Conflict.

        That is refused before the trace has ended, and while a model has a version that came from it.
        """
        yield from requests.delete(self.id)

    def _read_log(self) -> Flow[str]:
        """Return what the model's code has printed so far."""
        log = yield from get_text(f"{trace_path(self.id)}/log")
        return log

    def _read_report(self) -> Flow[str]:
        """Return the report: one page of HTML that loads nothing else."""
        result = yield from self._get_result()
        reply = yield Ask("GET", f"/artifacts/{result.digest}/report")
        return reply.text()

    def _read_printout(
        self, kind: PrintoutKind = "graph", *, method: str | None = None, submodule: str | None = None
    ) -> Flow[str]:
        """Return a printout of the trace, as torch prints it: of a method, and of a submodule by its dotted name."""
        result = yield from self._get_result()
        named = {"method": method or first_method(result.contract.methods), "submodule": submodule}
        params = {name: value for name, value in named.items() if value is not None}
        printout = yield from get_text(f"/artifacts/{result.digest}/printouts/{kind}", **params)
        return printout

    def _download(self, path: str | Path) -> Flow[Path]:
        """Write the TorchScript archive to a file, for torch.jit.load in Python and C++, and return its path."""
        result = yield from self._get_result()
        target = Path(path)
        if target.is_dir() or str(path).endswith(("/", "/.")):
            raise NotSendable(f"{target} is a folder: name a file in it, such as {target / 'net.pt'}")
        with written_whole(target) as file:
            yield Ask("GET", f"/artifacts/{result.digest}/archive", on_bytes=file.write)
        return target

    def _infer(self, /, *inputs: Any, method: str | None = None, seed: int | None = None, **named: Any) -> Flow[Any]:
        """Return what this version answers, nested as the model's answer is: tensors for tensors, else arrays.

        Raises OutsideContract for inputs that the trace is not right for, and NotServed if it was rejected.
        """
        result = yield from self._get_result()
        answer = yield from inference.infer(self._contracts, result.served, inputs, named, method, seed)
        return answer

    def _read_outputs(self) -> Flow[list[Any]]:
        """Return what the model returned in mode eager, as arrays: of each method's example, then of check inputs."""
        yield from self._get_result()
        outputs = yield from read_outputs(self._request)
        return outputs

    def _read_code(self, result: Result) -> Flow[str | None]:
        """Return the traced code, to be shown folded."""
        if not result.artifacts:
            return None
        method = first_method(result.contract.methods)
        code = yield from get_text(f"/artifacts/{result.digest}/printouts/code", method=method)
        return code


class Trace(_Handle):
    """The handle of a trace. What needs the end waits for it, and so does a notebook that shows it."""

    _connection: Connection

    refresh = waiting(_Handle._refresh)
    wait = waiting(_Handle._wait)
    result = waiting(_Handle._get_result)
    cancel = waiting(_Handle._cancel)
    delete = waiting(_Handle._delete)
    log = waiting(_Handle._read_log)
    report = waiting(_Handle._read_report)
    printout = waiting(_Handle._read_printout)
    download = waiting(_Handle._download)
    infer = waiting(_Handle._infer)
    outputs = waiting(_Handle._read_outputs)

    @property
    def verdict(self) -> Verdict | None:
        """How well the trace is known to be right."""
        return self.result().verdict

    @property
    def findings(self) -> list[Finding]:
        """What a person must know of the trace, those that speak against it first."""
        return self.result().findings

    @property
    def contract(self) -> Contract:
        """For which inputs the trace is right."""
        return self.result().contract

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        self.wait()
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


class AsyncTrace(_Handle):
    """The handle of a trace, whose methods are awaited: `result = await trace.result()`."""

    _connection: AsyncConnection

    refresh = awaitable(_Handle._refresh)
    wait = awaitable(_Handle._wait)
    result = awaitable(_Handle._get_result)
    cancel = awaitable(_Handle._cancel)
    delete = awaitable(_Handle._delete)
    log = awaitable(_Handle._read_log)
    report = awaitable(_Handle._read_report)
    printout = awaitable(_Handle._read_printout)
    download = awaitable(_Handle._download)
    infer = awaitable(_Handle._infer)
    outputs = awaitable(_Handle._read_outputs)
