"""Results: what a trace came to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tracehouse.client.call_tensors import build_answer
from tracehouse.client.errors import NotFound, NotServed, ProblemError, TraceCancelled, TraceFailed, UnexpectedReply
from tracehouse.client.flow import Flow, get_json
from tracehouse.client.forms import ArtifactForm, OutputsForm
from tracehouse.client.values import to_numpy
from tracehouse.contract.contract import Contract
from tracehouse.contract.structure import Structure
from tracehouse.errors import InvalidTensor
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import speaks_against
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Datatype, Tensor, pack


@dataclass(frozen=True, repr=False)
class Result:
    """What a trace came to: the verdict, what was found, and the contract, which says for which inputs it is right.

    `request` is the trace request as the service describes it, and `artifacts` are the documents of its artifacts, one
    for each device and bucket; both are as they came. In mode eager there are none.
    """

    request: Mapping[str, Any] = field(hash=False)
    artifacts: Sequence[Mapping[str, Any]] = field(hash=False)

    @property
    def verdict(self) -> Verdict | None:
        """How well the trace is known to be right; None in mode eager, which traces nothing."""
        verdict = self.request["verdict"]
        return None if verdict is None else Verdict(verdict)

    @property
    def sentence(self) -> str:
        """The verdict in a sentence, with what the check could not finish."""
        sentences = dict.fromkeys(str(artifact["verdict_sentence"]) for artifact in self.artifacts)
        return "; ".join(sentences) if sentences else str(self.request["state"])

    @property
    def findings(self) -> list[Finding]:
        """What a person must know, those that speak against the trace first."""
        with explain_unreadable(next(iter(self.artifacts), {}), "findings"):
            findings = read_findings(self.request["findings"])
        return sorted(findings, key=lambda one: (one.effect == "harmless", not speaks_against(one.kind)))

    @property
    def contract(self) -> Contract:
        """For which inputs the trace is right. Raises NotServed in mode eager."""
        return read_contract(self._first)

    @property
    def digest(self) -> str:
        """The name of the artifact. Raises NotServed in mode eager."""
        return str(self._first["digest"])

    @property
    def model(self) -> str | None:
        """The model and version that answers, as `net:3`; None if nothing does."""
        model = self.request["model"]
        return None if model is None else f"{model['name']}:{model['version']}"

    @property
    def served(self) -> str:
        """The same. Raises NotServed with the first cause if nothing answers."""
        if self.model is not None:
            return self.model
        against = [one for one in self.findings if one.effect != "harmless"]
        cause = against[0] if against else None
        raise NotServed({
            "title": "The trace was rejected, and nothing answers",
            "code": "not-served",
            "detail": cause.detail if cause else f"the verdict is {self.verdict}",
            **({"file": cause.file, "line": cause.line, "source": cause.source} if cause and cause.file else {}),
            "remedy": (cause.remedy if cause else None)
            or "change what the findings name, or trace it with accept_unsound=True",
        })  # fmt: skip

    def __repr__(self) -> str:
        return f"<Result {self.sentence}, model {self.model or 'not registered'}>"

    @property
    def _first(self) -> Mapping[str, Any]:
        if self.artifacts:
            return self.artifacts[0]
        raise NotServed({"title": "There is no artifact", "code": "not-served", "detail": "mode eager traces nothing"})


def read_result(request: Mapping[str, Any]) -> Flow[Result]:
    """Return the result of a trace request that has ended. Raises TraceFailed and TraceCancelled."""
    if (error := error_of(request)) is not None:
        raise error
    artifacts = []
    for one in request["artifacts"]:
        artifact = yield from get_json(f"/artifacts/{one['digest']}", ArtifactForm)
        artifacts.append(artifact)
    return Result(request, artifacts)


def read_outputs(request: Mapping[str, Any]) -> Flow[list[Any]]:
    """Return what the model returned in mode eager: of each method's example, then of the check inputs."""
    path = request["links"]["outputs"]
    if path is None:
        raise NotFound({
            "title": "There are no outputs",
            "code": "outputs-not-found",
            "detail": "only a trace in mode eager keeps what the model returned",
            "remedy": 'trace it with mode="eager"',
        })  # fmt: skip
    document = yield from get_json(path, OutputsForm)
    try:
        return [_read_call(call) for call in document["calls"]]
    except (ValidationError, InvalidTensor, KeyError) as error:
        raise UnexpectedReply(f"the outputs of the answer cannot be read ({error!r})") from error


def _read_call(call: Mapping[str, Any]) -> Any:
    tensors = {}
    for one in call["outputs"]:
        datatype, shape = Datatype(one["datatype"]), tuple(one["shape"])
        tensors[one["name"]] = Tensor(one["name"], datatype, shape, pack(datatype, shape, one["data"]))
    returns = TypeAdapter[Structure](Structure).validate_python(call["returns"])
    return build_answer(returns, tensors, to_numpy)


def error_of(request: Mapping[str, Any]) -> ProblemError | None:
    """Return the error of a trace request that ended without a result; None for every other."""
    if request["state"] == "cancelled":
        detail = f"trace request {request['id']} was cancelled"
        return TraceCancelled({"title": "The trace request was cancelled", "code": "cancelled", "detail": detail})
    if request["state"] == "failed":
        return TraceFailed(request["problem"] or {"title": "The model could not be traced"})
    return None


def read_contract(artifact: Mapping[str, Any]) -> Contract:
    """Return the contract in an artifact's document. Raises UnexpectedReply for one that this release cannot read."""
    with explain_unreadable(artifact, "contracts"):
        return Contract.model_validate(artifact["contract"])


def first_method(methods: Iterable[str]) -> str:
    """Return the first method of a contract. Raises UnexpectedReply if there is none."""
    for method in methods:
        return method
    raise UnexpectedReply("the answer has a contract without methods: is the address that of a Tracehouse service?")


def read_findings(documents: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return findings, without members that this release does not know."""
    return [Finding.model_validate(_known(Finding, one)) for one in documents]


@contextmanager
def explain_unreadable(artifact: Mapping[str, Any], what: str) -> Iterator[None]:
    """Raise UnexpectedReply, with the release that made the artifact, where this release cannot read a part of it."""
    try:
        yield
    except (ValidationError, KeyError) as error:
        made_with = artifact.get("versions", {}).get("tracehouse", "unknown")
        raise UnexpectedReply(
            f"the service (Tracehouse {made_with}) writes {what} that this client (Tracehouse {version('tracehouse')}) "
            "cannot read: install the same release here, with pip install tracehouse"
        ) from error


def _known(kind: type[Finding], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that this release knows: a newer service may have more."""
    return {name: value for name, value in document.items() if name in kind.model_fields}
