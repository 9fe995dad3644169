"""Errors of a submission: its source, its weights, its inputs, or what its code did."""

from typing import ClassVar

from tracehouse.errors.base import Fault, TraceError


class SourceUnreadable(TraceError):
    """The source archive cannot be read"""


class SourceUnsafe(TraceError):
    """The source has file names that are not allowed"""


class SourceTooLarge(TraceError):
    """The source archive unpacks to more than is allowed"""


class SourceSyntaxError(TraceError):
    """The source is not valid Python"""


class SourceImportFailed(TraceError):
    """The source imports something that is not installed here"""


class SourceRaised(TraceError):
    """The source raised while it was imported"""


class EntrypointNotFound(TraceError):
    """The source has no such entrypoint

    Write `module:name`: a file of the source without `.py`, and a name that is defined in it.
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

    Name methods that the model's class defines; `example_inputs` at the top level are those of `forward`.
    """


class ArgumentMismatch(TraceError):
    """The example inputs do not fit the method's arguments

    Give `example_inputs` in the order of the method's parameters, and `example_kwarg_inputs` under their names.
    """


class ModelNotCopyable(InitFailed):
    """The model can neither be copied nor made again

    Keep locks, files, generators and the like out of the model, or give its class a `__deepcopy__`.
    """


class StubbedPackageUsed(TraceError):
    """The model uses a package that is not installed, and that `stub_missing` names

    Install the package beside the service, send a module of its name in the source, or take the use out of the model.
    """


class ModelRaised(TraceError):
    """The model raised on its example inputs"""


class DeviceNotFound(ModelRaised):
    """The source asks for a device that this machine lacks

    Use the device of an input or a parameter, as `x.device`; for a GPU in a trace request, put `cuda` in `devices`.
    """


class DevicesDiffer(ModelRaised):
    """The model computes with tensors of several devices

    Make tensors on the inputs' device, as `torch.ones(3, device=x.device)`. Fill parameters on `meta` with `to_empty`
    and `load_state_dict`.
    """


class MethodTracedAsFunction(ModelRaised):
    """The source calls torch.jit.trace on a method of a module

    Submit the model and name its methods in `methods`, or call torch.jit.trace_module in the source.
    """


class ModelUnrepeatable(TraceError):
    """The model differs when it is loaded again

    Make the source build the same model each time: draw random numbers with torch, random or numpy, which are seeded,
    and do not read the clock or anything else that changes.
    """


class LimitExceeded(TraceError):
    """The model code went over a limit"""


class ModelExited(TraceError):
    """The model code ended its process"""


class ModelCrashed(TraceError):
    """The model code crashed its process"""


class TracerLost(TraceError):
    """The tracing process was lost; the model is not the cause"""

    fault: ClassVar[Fault] = "service"
