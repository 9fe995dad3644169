"""Forms: the types of the members that this client reads of what a service answers.

What answers may be no service, or one of another release. A member that is not there is told when it is read, and
others may be there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict

from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Datatype


class Form(BaseModel):
    model_config = ConfigDict(strict=True, protected_namespaces=())


class Page(Form):
    """A part of a list."""

    next_cursor: str | None = None


class _Problem(Form):
    errors: Sequence[Mapping[str, Any]] | None = None


class _NamedVersion(Form):
    name: str = ""
    version: int = 0


class _NamedArtifact(Form):
    digest: str = ""


class TraceRequestForm(Form):
    id: str = ""
    state: str = ""
    stage: str = ""
    progress: float = 0
    verdict: Verdict | None = None
    model: _NamedVersion | None = None
    artifacts: Sequence[_NamedArtifact] = ()
    findings: Sequence[Mapping[str, Any]] = ()
    problem: _Problem | None = None
    links: Mapping[str, str | None] = {}


class TraceRequestPage(Page):
    trace_requests: Sequence[TraceRequestForm] = ()


class EventForm(Form):
    """The data of an event, of any kind."""

    progress: float | None = None
    expected_start: AwareDatetime | None = None
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


class _Version(Form):
    version: int = 0
    verdict: str = ""
    artifacts: Mapping[str, str] = {}
    buckets: Sequence[_Bucket] = ()
    created_at: str = ""


class ModelForm(Form):
    name: str = ""
    default_version: int | None = None
    versions: Sequence[_Version] = ()
    aliases: Sequence[_Alias] = ()
    bitwise: bool = False


class ModelPage(Page):
    models: Sequence[ModelForm] = ()


class PromotionForm(Form):
    previous_version: int | None = None


class AliasForm(Form):
    etag: str = ""


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
