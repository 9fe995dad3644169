"""Everything that can go wrong, by whose fault it is.

A family says whose fault it is; a leaf's docstring is its title and then, where there is one, its remedy; its class
name is its slug, and `facts` are the values a client can act on. Only `service.api.problems` knows which HTTP status
a family has.

ServiceError                service
├─ CallerError              caller
│  ├─ MalformedRequest               the body could not be read
│  ├─ InvalidRequest                 the body was read and says something impossible
│  ├─ PayloadTooLarge
│  ├─ UnsupportedMediaType
│  ├─ Unauthenticated                nobody that the service knows asks
│  ├─ Forbidden                      it is not for whoever asks
│  ├─ TooManyRequests                it may, later
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
from inspect import cleandoc
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

    @classmethod
    def remedy(cls) -> str | None:
        """What to do about it: the docstring's second paragraph."""
        _, *lines = cleandoc(cls.__dict__.get("__doc__") or "").splitlines()
        return " ".join(lines).strip() or None

    def failure(self) -> "Failure":
        return Failure(slug=self.slug(), detail=self.detail, facts=self.facts)


class Failure(Frozen):
    """An error as data: what crosses a pipe and what a row keeps."""

    slug: str
    detail: str
    facts: dict[str, JsonValue] = {}


class CallerError(ServiceError):
    """The request cannot be answered as it stands"""

    fault: ClassVar[Fault] = "caller"


class MalformedRequest(CallerError):
    """The request's body cannot be read"""


class MalformedJson(MalformedRequest):
    """The body is not JSON

    Send strict JSON in UTF-8: no comments, no NaN, no trailing commas.
    """


class MalformedMultipart(MalformedRequest):
    """The body is not well-formed multipart/form-data

    Send one part `request` with the JSON, and a part `files` for each file.
    """


class UploadTruncated(MalformedRequest):
    """The upload ended before its last part did

    Send it again, all of it.
    """


class MalformedHeader(MalformedRequest):
    """A header's value cannot be read

    Write the header as its description in the API documentation says.
    """


class InvalidRequest(CallerError):
    """The request says something that cannot be done"""


class FileNotUploaded(InvalidRequest):
    """The request refers to a file that was not uploaded

    Send the file as a part `files` whose file name is the one in the request.
    """


class FileNotUsed(InvalidRequest):
    """A file was uploaded that the request does not refer to

    Name the file in the request, or leave it out.
    """


class InvalidFileName(InvalidRequest):
    """A file's name is not a plain name

    Use letters, digits, `.`, `_` and `-`, and no slashes.
    """


class InvalidName(InvalidRequest):
    """A name does not follow the grammar of names

    Write `name`, `name@alias` or `name:version`, of letters, digits, `.`, `_` and `-`.
    """


class InvalidCursor(InvalidRequest):
    """The cursor is not one that this list gave out

    Use the `next_cursor` of the page before, unchanged, or begin without one.
    """


class InvalidTensor(InvalidRequest):
    """A tensor's data does not fit its datatype and shape

    Give as many values as the shape has, flat or nested as the shape, and of the datatype.
    """


class IdempotencyKeyReused(InvalidRequest):
    """The Idempotency-Key was used before with another request

    Use a new key for a new request.
    """


class PayloadTooLarge(CallerError):
    """The request is larger than this service takes

    Send less, large tensors as files, or raise the limit where the service is started.
    """


class UnsupportedMediaType(CallerError):
    """The body's content type is not one that this route takes

    Set `Content-Type` to one that is supported, and send the body unencoded.
    """


class Unauthenticated(CallerError):
    """Say who you are"""


class ApiKeyMissing(Unauthenticated):
    """The request has no API key

    Send `Authorization: Bearer` and the key, or give it to the command with `--key` or as TRACEHOUSE_KEY;
    `tracehouse keys create` makes one.
    """


class ApiKeyInvalid(Unauthenticated):
    """The API key is not one of this service's

    Send the whole key as it was shown when it was made; a revoked one needs a successor.
    """


class ApiKeyExpired(Unauthenticated):
    """The API key has expired

    Ask whoever runs the service for a new one.
    """


class Forbidden(CallerError):
    """This may not be done from here, or with this key"""


class ScopeMissing(Forbidden):
    """The API key lacks the scope that this needs

    Use a key with that scope, or with `admin`.
    """


class StorageQuotaExceeded(Forbidden):
    """The tenant has no room left for this

    Ask whoever runs the service for more room: sending it again will not help.
    """


class TooManyRequests(CallerError):
    """More was asked than is allowed for now"""


class RateLimited(TooManyRequests):
    """The API key was used too often in the last minute

    Wait as long as `Retry-After` says.
    """


class QueueQuotaExceeded(TooManyRequests):
    """Too many of the tenant's trace requests are waiting

    Wait until some have run, or cancel some.
    """


class NotFound(CallerError):
    """There is no such thing here"""


class TraceRequestNotFound(NotFound):
    """There is no trace request with this id

    Use the `id` in the reply to `POST /trace`; `GET /trace` lists them.
    """


class OutputsNotFound(NotFound):
    """This trace request has no outputs

    Only one in mode eager has some, once it has succeeded.
    """


class ArtifactNotFound(NotFound):
    """There is no artifact with this digest

    Use the digest in `artifacts` of a trace request that succeeded.
    """


class PrintoutNotFound(NotFound):
    """The artifact has no such printout

    `GET /artifacts/{digest}/printouts` lists what there is.
    """


class CounterexampleNotFound(NotFound):
    """The artifact has no such counterexample

    `counterexamples` in its manifest lists what there is, numbered from 0 on.
    """


class ExportedProgramNotFound(NotFound):
    """The artifact has no exported program

    Trace the model with `options.exportability`; the artifact's `exportability` says what came of it.
    """


class ModelNotFound(NotFound):
    """There is no model of this name

    `GET /models` lists the names; a model is there once a trace request of its name was accepted.
    """


class VersionNotFound(NotFound):
    """The model has no such version

    `GET /models/{name}` lists its versions.
    """


class AliasNotFound(NotFound):
    """The model has no such alias

    `GET /models/{name}` lists its aliases.
    """


class PrintoutsUnreadable(NotFound):
    """The artifact's printouts cannot be read

    Trace it again with `force`; archive and inference do not need them.
    """


class MethodNotFound(NotFound):
    """The artifact has no such method

    Ask for a method that was traced: the contract in the manifest has them.
    """


class ApiKeyNotFound(NotFound):
    """There is no API key with this prefix

    `tracehouse keys list` lists them.
    """


class Conflict(CallerError):
    """The state of things forbids this"""


class TraceRequestEnded(Conflict):
    """The trace request has already ended

    There is nothing left to cancel; submit it again if it is to run again.
    """


class VersionAliased(Conflict):
    """An alias points at this version

    Move or delete the alias first.
    """


class PreconditionFailed(CallerError):
    """Somebody else changed it first"""


class AliasMoved(PreconditionFailed):
    """The alias is not where If-Match says it is

    Read the alias again, and send its present ETag as `If-Match`.
    """


class PreconditionRequired(CallerError):
    """Say which state you mean to change"""


class IfMatchRequired(PreconditionRequired):
    """Moving an alias needs If-Match

    Send the ETag that the alias has now as `If-Match`, or `*` to move it from wherever it is.
    """


class ContractViolation(CallerError):
    """The inputs lie outside the artifact's contract"""


class MissingInput(ContractViolation):
    """An input of the contract was not sent

    Send every input of the contract.
    """


class UnexpectedInput(ContractViolation):
    """An input was sent that the contract does not know

    Send only inputs of the contract, under their names.
    """


class DatatypeMismatch(ContractViolation):
    """An input has another datatype than the contract

    Send the datatype of the contract.
    """


class ShapeMismatch(ContractViolation):
    """An input has another shape than the contract

    Send the shape of the contract, or trace the model again on inputs of this shape.
    """


class SizesDisagree(ContractViolation):
    """Sizes that belong together disagree

    Give the dims that the contract names alike sizes that go together, such as `ids` and its mask one length.
    """


class SizeOutOfRange(ContractViolation):
    """A size lies outside those that the contract takes

    Send a size that lies in one of the contract's `regions`, or trace the model again with the wanted ones as `sizes`.
    """


class NoBucket(ContractViolation):
    """The model has no bucket of these sizes

    Send the sizes of a bucket, or trace the model again with these sizes among `buckets`.
    """


class ValueOutOfRange(ContractViolation):
    """An input has a value outside the range of the contract

    Send values within the range: on others the model itself raises.
    """


class StructureMismatch(ContractViolation):
    """An argument nests otherwise than the contract

    Nest the argument as the example input of the trace was nested.
    """


class BakedArgument(ContractViolation):
    """An argument was sent with another value than the one that the trace baked in, or that the script was tried with

    Send the value of the contract, leave it out, or trace again with the other value.
    """


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
    """The source has no such entrypoint

    Write `module:name` with a module of the source, as its file is called without `.py`, and a name defined in it.
    """


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
    """The model has no such method

    Name methods that the model's class defines; `example_inputs` at the top stand for those of `forward`.
    """


class ArgumentMismatch(TraceError):
    """The example inputs do not fit the method's arguments

    Give `example_inputs` in the order of the method's parameters, and `example_kwarg_inputs` under their names.
    """


class ModelNotCopyable(InitFailed):
    """The model cannot be copied, nor made again

    Keep locks, files, generators and the like out of the model, or give its class a `__deepcopy__`.
    """


class ModelRaised(TraceError):
    """The model raised on its example inputs"""


class DeviceNotFound(ModelRaised):
    """The source asks for a device that is not here

    Take the device from the inputs or from a parameter, as `x.device`; a GPU is there where `devices` asks for one.
    """


class DevicesDiffer(ModelRaised):
    """The model computes with tensors of several devices

    Make tensors on the inputs' device, as `torch.ones(3, device=x.device)`, and give parameters on `meta` their values
    with `to_empty` and `load_state_dict`.
    """


class MethodTracedAsFunction(ModelRaised):
    """The source gives torch.jit.trace a method of a module

    Submit the model itself and name its methods under `methods`; in the source, call torch.jit.trace_module with it.
    """


class UnsupportedOutput(TraceError):
    """The model returns something that TorchScript cannot return"""


class OutputNotTensor(UnsupportedOutput):
    """The model returns something that is not a tensor

    Return tensors alone, in tuples, lists or dicts; of a number, `torch.tensor` makes one, which the trace keeps as it
    is.
    """


class OutputWithoutDatatype(UnsupportedOutput):
    """The model returns a tensor that has no datatype in the Open Inference Protocol

    Return it as one that has: `torch.view_as_real(y)` of a complex tensor, `y.dequantize()` of a quantised one,
    `y.to_dense()` of a sparse one, `y.to(torch.float32)` of another.
    """


class OutputWithoutValues(UnsupportedOutput):
    """The model returns a tensor that has a shape and no values

    Return tensors on the inputs' device: those on the device `meta` and those of a FakeTensorMode hold nothing.
    """


class OutputNotJson(UnsupportedOutput):
    """The model returns something that JSON cannot hold

    Return integers of at most 64 bits, and text and dict keys without lone surrogates.
    """


class MixedOutput(UnsupportedOutput):
    """The model returns a list or a dict of values that are not all of one type

    Return a tuple or a NamedTuple, whose items may differ, or let `mode` be auto or script.
    """


class UnsupportedDict(UnsupportedOutput):
    """The model returns a dict that TorchScript cannot return

    Return a dict from strings to tensors, or to tuples of tensors, or else a NamedTuple.
    """


class UntraceableModel(TraceError):
    """torch could not trace the model"""


class OutputNotTraced(UntraceableModel):
    """An output does not come from the inputs by operators that torch records

    Compute it with torch's operators: what goes through `.data`, numpy or `resize_` is lost to the trace.
    """


class MixedInput(UntraceableModel):
    """An argument is a list or a dict of values that are not all of one type

    Let the model take a tuple, or an argument for each value: a trace keeps one type for all items of a list or a dict.
    """


class ConstantRequiresGrad(UntraceableModel):
    """The model computes with a tensor that requires grad and is no part of it

    Register the tensor, or the module that holds it, in `__init__` of the model, make it an input, or detach it.
    """


class SharedParameters(UntraceableModel):
    """A module has one parameter or buffer under two names

    Register it under one of them, and use that one in both places; two modules may share a parameter.
    """


class BackwardHooks(UntraceableModel):
    """A module has backward hooks, which a trace cannot keep

    Register the hook where the model is trained, or remove it before the model is submitted.
    """


class CustomAutogradFunction(UntraceableModel):
    """The model calls a torch.autograd.Function, which an archive cannot hold

    Compute the same with torch's operators where it is traced: call a plain function if `torch.jit.is_tracing()`.
    """


class ModuleNotRegistered(UntraceableModel):
    """The model calls a scripted or traced module that is no part of it

    Assign the module in `__init__` of the model, or put it into an nn.ModuleList.
    """


class TracingNested(UntraceableModel):
    """The model calls torch.jit.trace itself

    Leave torch.jit.trace out of `forward`: what forward calls is traced with it.
    """


class CompiledModel(UntraceableModel):
    """The model has a part that torch.compile made

    Submit the model as it is before torch.compile.
    """


class ScriptingFailed(TraceError):
    """torch could not script the model

    Annotate the types of what is not a tensor, guard a call that the artifact can do without by
    `if not torch.jit.is_scripting():`, or trace the model instead.
    """


class MethodNotCompiled(TraceError):
    """The method is there in Python, and not in the compiled model

    Mark it with @torch.jit.export, or name methods that are compiled.
    """


class ArchiveUnreadable(TraceError):
    """The uploaded file is not a TorchScript archive

    Upload what torch.jit.save or ScriptModule.save wrote; a state dict belongs under `weights`, and Python under
    `source.file`.
    """


class ModelUnrepeatable(TraceError):
    """The model is another one when it is loaded again

    Let the source make the same model each time: draw random numbers through torch, random or numpy, which are seeded,
    and read no clock and nothing else that changes.
    """


class ArchiveUnusable(TraceError):
    """What was traced or scripted could not be loaded again

    Leave out `options.freeze` or `options.optimize_for_inference` where it is that form which fails; otherwise keep
    what the archive cannot hold out of the model.
    """


class LimitExceeded(TraceError):
    """The model code went over a limit"""


class ModelExited(TraceError):
    """The model code ended its process"""


class ModelCrashed(TraceError):
    """The model code crashed its process"""


class TracerLost(TraceError):
    """The tracing process was lost, and not by the model's doing"""

    fault: ClassVar[Fault] = "service"


class InferenceError(ServiceError):
    """The artifact could not answer"""

    fault: ClassVar[Fault] = "model"


class GraphRaised(InferenceError):
    """The artifact raised on these inputs

    Send inputs that the model takes; a trace knows only the checks that its examples passed.
    """


class InferenceTimeout(InferenceError):
    """The artifact did not answer in time"""


class AnswerTooLarge(InferenceError):
    """The artifact's answer is larger than this service sends

    Send fewer inputs at once, trace a model that returns less, or raise the limit where the service is started.
    """


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


class DeviceUnavailable(Unavailable):
    """This service has no such device

    Ask for `device=cpu`, or start the service on a machine with a GPU, and with GPU_SLOTS.
    """


class ShuttingDown(Unavailable):
    """The service is shutting down"""


class StorageUnavailable(Unavailable):
    """The database does not answer"""


class DiskFull(Unavailable):
    """There is too little room on the disk"""


class TooManyOpenFiles(Unavailable):
    """The service has too many files open to open another"""


class SandboxUnavailable(Unavailable):
    """No process for model code could be started"""


def by_slug() -> dict[str, type[ServiceError]]:
    """Every error, the families too."""
    found: dict[str, type[ServiceError]] = {}
    waiting = [ServiceError]
    while waiting:
        error = waiting.pop()
        found[error.slug()] = error
        waiting.extend(error.__subclasses__())
    return found
