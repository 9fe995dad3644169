"""Errors of what was submitted: its source, weights, inputs, or what its code did."""

from typing import ClassVar

from tracehouse.errors.base import Fault, TraceError


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


class ModelUnrepeatable(TraceError):
    """The model is another one when it is loaded again

    Let the source make the same model each time: draw random numbers through torch, random or numpy, which are seeded,
    and read no clock and nothing else that changes.
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
