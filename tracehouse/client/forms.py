"""Forms: the types of the members that this client reads of what a service answers.

What answers may be no service, or one of another release. A member that is not there is told when it is read, and
others may be there. The command `tracehouse` reads the same forms.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Datatype


class Form(BaseModel):
    model_config = ConfigDict(strict=True, protected_namespaces=())


def _check_moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("it has no time zone")
    return text


Moment = Annotated[str, AfterValidator(_check_moment)]


class Page(Form):
    """A part of a list."""

    next_cursor: str | None = None


class ProblemForm(Form):
    title: str = ""
    code: str | None = None
    detail: str | None = None
    remedy: str | None = None
    errors: Sequence[Mapping[str, Any]] | None = None


class _NamedVersion(Form):
    name: str = ""
    version: int = 0


class _NamedArtifact(Form):
    digest: str = ""


class _Finding(Form):
    kind: str = ""
    effect: str | None = None
    detail: str = ""
    remedy: str | None = None
    file: str | None = None
    line: int | None = None


class _Promotion(Form):
    promoted: bool = False
    reason: str = ""


class _TraceRequestLinks(Form):
    log: str = ""
    outputs: str | None = None


class TraceRequestForm(Form):
    id: str = ""
    state: str = ""
    stage: str = ""
    progress: float = 0
    verdict: Verdict | None = None
    model: _NamedVersion | None = None
    artifacts: Sequence[_NamedArtifact] = ()
    model_name: str = ""
    promotion: _Promotion | None = None
    findings: Sequence[_Finding] = ()
    problem: ProblemForm | None = None
    waiting: str | None = None
    created_at: Moment = ""
    links: _TraceRequestLinks = _TraceRequestLinks()


class TraceRequestPage(Page):
    trace_requests: Sequence[TraceRequestForm] = ()


class EventForm(Form):
    """The data of an event, of any kind."""

    progress: float | None = None
    expected_start: Moment | None = None
    text: str = ""
    budget_left_s: float | None = None


class ArtifactForm(Form):
    digest: str = ""
    verdict_sentence: str = ""
    versions: Mapping[str, Any] = {}


class _Output(Form):
    name: str = ""
    datatype: Datatype = Datatype.FP32
    shape: Sequence[int] = ()


class _Call(Form):
    outputs: Sequence[_Output] = ()


class OutputsForm(Form):
    calls: Sequence[_Call] = ()


class InferenceForm(Form):
    model_version: str = ""
    outputs: Sequence[_Output] = ()
    parameters: Mapping[str, Any] = {}


class _Alias(Form):
    alias: str = ""
    version: int = 0


class _Bucket(Form):
    device: str = ""
    digest: str = ""
    sizes: Mapping[str, int] = {}


class _VersionLinks(Form):
    trace_request: str = ""


class _Version(Form):
    version: int = 0
    verdict: str = ""
    artifacts: Mapping[str, str] = {}
    buckets: Sequence[_Bucket] = ()
    created_at: str = ""
    links: _VersionLinks = _VersionLinks()


class ModelForm(Form):
    name: str = ""
    default_version: int | None = None
    versions: Sequence[_Version] = ()
    aliases: Sequence[_Alias] = ()
    bitwise: bool = False
    idle_s: float | None = None
    pinned: bool = False
    threads: int | None = None
    replicas: int | None = None


class ModelPage(Page):
    models: Sequence[ModelForm] = ()


class PromotionForm(Form):
    previous_version: int | None = None
    default_version: int | None = None


class AliasForm(Form):
    version: int = 0
    etag: Annotated[str, Field(pattern="^[!-~]*$")] = ""  # what a header can have


class KeyForm(Form):
    prefix: str = ""
    name: str = ""
    tenant: str = ""
    scopes: Sequence[str] = ()
    created_at: str = ""
    expires_at: str | None = None
    last_used_at: str | None = None
    revoked_at: str | None = None
    requests_per_minute: int | None = None
    upload_max_bytes: int | None = None
    key: str = ""


class KeyPage(Page):
    keys: Sequence[KeyForm] = ()


class _Package(Form):
    name: str = ""
    version: str = ""


class _Environment(Form):
    name: str = ""
    packages: Sequence[_Package] = ()


class EnvironmentsForm(Form):
    environments: Sequence[_Environment] = ()


class LimitsForm(Form):
    upload_max_bytes: int = 0
    request_max_bytes: int = 0
