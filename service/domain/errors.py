"""Everything that can go wrong, by whose fault it is.

A family says whose fault it is; a leaf's docstring is its title, its class name is its slug, and `facts` are
the values a client can act on. Only `service.api.problems` knows which HTTP status a family has.

ServiceError                service
├─ CallerError              caller
│  ├─ MalformedRequest               the body could not be read
│  ├─ InvalidRequest                 the body was read and says something impossible
│  ├─ PayloadTooLarge
│  ├─ UnsupportedMediaType
│  ├─ NotFound
│  ├─ Conflict
│  ├─ PreconditionFailed
│  ├─ PreconditionRequired
│  └─ ContractViolation              an inference input lies outside the artifact's contract
├─ TraceError               model    an outcome of tracing; stored, never raised to a client
│  └─ TracerLost            service  tried again, then final
├─ InferenceError           model
│  ├─ InferenceTimeout      model
│  └─ RunnerLost            service
├─ BlobMissing              service  a row names bytes that are gone
└─ Unavailable              service  come back later
"""

import re
from typing import Any, ClassVar, Literal

from pydantic import JsonValue

from service.domain.frozen import Frozen

Fault = Literal["caller", "model", "service"]


class ServiceError(Exception):
    """The service could not do what was asked"""

    fault: ClassVar[Fault] = "service"

    def __init__(self, detail: str, **facts: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.facts = facts

    @classmethod
    def slug(cls) -> str:
        """`ShapeMismatch` → `shape-mismatch`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()

    @classmethod
    def title(cls) -> str:
        return (cls.__doc__ or cls.__name__).strip().splitlines()[0]

    def failure(self) -> "Failure":
        return Failure(slug=self.slug(), detail=self.detail, facts=self.facts)


class Failure(Frozen):
    """An error as data: what crosses a pipe and what a row keeps."""

    slug: str
    detail: str
    facts: dict[str, JsonValue] = {}


# --- the caller's fault --------------------------------------------------------------------------------------


class CallerError(ServiceError):
    """The request cannot be answered as it stands"""

    fault: ClassVar[Fault] = "caller"


class MalformedRequest(CallerError):
    """The request's body cannot be read"""


class MalformedJson(MalformedRequest):
    """The body is not JSON"""


class MalformedMultipart(MalformedRequest):
    """The body is not well-formed multipart/form-data"""


class UploadTruncated(MalformedRequest):
    """The upload ended before its last part did"""


class MalformedHeader(MalformedRequest):
    """A header's value cannot be read"""


class InvalidRequest(CallerError):
    """The request says something that cannot be done"""


class FileNotUploaded(InvalidRequest):
    """The request refers to a file that was not uploaded"""


class FileNotUsed(InvalidRequest):
    """A file was uploaded that the request does not refer to"""


class InvalidFileName(InvalidRequest):
    """A file's name is not a plain name"""


class InvalidName(InvalidRequest):
    """A name does not follow the grammar of names"""


class InvalidCursor(InvalidRequest):
    """The cursor is not one that this list gave out"""


class InvalidTensor(InvalidRequest):
    """A tensor's data does not fit its datatype and shape"""


class IdempotencyKeyReused(InvalidRequest):
    """The Idempotency-Key was used before with another request"""


class PayloadTooLarge(CallerError):
    """The request is larger than this service takes"""


class UnsupportedMediaType(CallerError):
    """The body's content type is not one that this route takes"""


class NotFound(CallerError):
    """There is no such thing here"""


class TraceRequestNotFound(NotFound):
    """There is no trace request with this id"""


class ArtifactNotFound(NotFound):
    """There is no artifact with this digest"""


class PrintoutNotFound(NotFound):
    """The artifact has no such printout"""


class ModelNotFound(NotFound):
    """There is no model of this name"""


class VersionNotFound(NotFound):
    """The model has no such version"""


class AliasNotFound(NotFound):
    """The model has no such alias"""


class MethodNotFound(NotFound):
    """The artifact has no such method"""


class Conflict(CallerError):
    """The state of things forbids this"""


class TraceRequestEnded(Conflict):
    """The trace request has already ended"""


class VersionAliased(Conflict):
    """An alias points at this version"""


class PreconditionFailed(CallerError):
    """Somebody else changed it first"""


class AliasMoved(PreconditionFailed):
    """The alias is not where If-Match says it is"""


class PreconditionRequired(CallerError):
    """Say which state you mean to change"""


class IfMatchRequired(PreconditionRequired):
    """Moving an alias needs If-Match"""


class ContractViolation(CallerError):
    """The inputs lie outside the artifact's contract"""


class MissingInput(ContractViolation):
    """An input of the contract was not sent"""


class UnexpectedInput(ContractViolation):
    """An input was sent that the contract does not know"""


class DatatypeMismatch(ContractViolation):
    """An input has another datatype than the contract"""


class ShapeMismatch(ContractViolation):
    """An input has another shape than the contract"""


class StructureMismatch(ContractViolation):
    """An argument nests otherwise than the contract"""


class BakedArgument(ContractViolation):
    """An argument that the trace baked in was sent with another value"""


# --- the model's fault: outcomes of tracing ------------------------------------------------------------------


class TraceError(ServiceError):
    """The model could not be traced"""

    fault: ClassVar[Fault] = "model"


class SourceUnreadable(TraceError):
    """The source archive cannot be read"""


class SourceUnsafe(TraceError):
    """The source holds names that it may not have"""


class SourceTooLarge(TraceError):
    """The source archive unpacks to more than is allowed"""


class SourceSyntaxError(TraceError):
    """The source is not valid Python"""


class SourceImportFailed(TraceError):
    """The source imports something that is not here"""


class SourceRaised(TraceError):
    """The source raised while it was imported"""


class EntrypointNotFound(TraceError):
    """The source has no such entrypoint"""


class EntrypointUnusable(TraceError):
    """The entrypoint is not an nn.Module, a factory of one, or a function"""


class InitFailed(TraceError):
    """The entrypoint raised while the model was made"""


class WeightsUnreadable(TraceError):
    """The weights file cannot be read"""


class WeightsMismatch(TraceError):
    """The weights do not fit the model"""


class InputsUnreadable(TraceError):
    """An inputs file cannot be read"""


class TraceMethodNotFound(TraceError):
    """The model has no such method"""


class ArgumentMismatch(TraceError):
    """The example inputs do not fit the method's arguments"""


class ModelRaised(TraceError):
    """The model raised on its example inputs"""


class UnsupportedOutput(TraceError):
    """The model returns something that TorchScript cannot return"""


class UntraceableModel(TraceError):
    """torch could not trace the model"""


class LimitExceeded(TraceError):
    """The model code went over a limit"""


class ModelExited(TraceError):
    """The model code ended its process"""


class ModelCrashed(TraceError):
    """The model code crashed its process"""


class TracerLost(TraceError):
    """The tracing process was lost, and not by the model's doing"""

    fault: ClassVar[Fault] = "service"


# --- inference -----------------------------------------------------------------------------------------------


class InferenceError(ServiceError):
    """The artifact could not answer"""

    fault: ClassVar[Fault] = "model"


class GraphRaised(InferenceError):
    """The artifact raised on these inputs"""


class InferenceTimeout(InferenceError):
    """The artifact did not answer in time"""


class RunnerLost(InferenceError):
    """The runner ended before it answered"""

    fault: ClassVar[Fault] = "service"


class GoldenCaseFailed(RunnerLost):
    """The artifact no longer gives the answers it was checked with"""


class BlobMissing(ServiceError):
    """The bytes of this digest are not there"""


class Unavailable(ServiceError):
    """The service cannot take this now"""


class QueueFull(Unavailable):
    """Too many trace requests are waiting"""


class PoolSaturated(Unavailable):
    """Too many inference requests are waiting"""


class ShuttingDown(Unavailable):
    """The service is shutting down"""


class StorageUnavailable(Unavailable):
    """The database does not answer"""


class DiskFull(Unavailable):
    """There is too little room on the disk"""


class SandboxUnavailable(Unavailable):
    """No process for model code could be started"""


def leaves() -> dict[str, type[ServiceError]]:
    """Every error by its slug."""
    found: dict[str, type[ServiceError]] = {}
    waiting = [ServiceError]
    while waiting:
        error = waiting.pop()
        found[error.slug()] = error
        waiting.extend(error.__subclasses__())
    return found
