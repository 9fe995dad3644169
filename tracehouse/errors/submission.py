"""Errors of a submission: its source, its weights, its inputs, or what its code did."""

from typing import ClassVar

from tracehouse.errors.base import Fault, TraceError


class SourceUnreadable(TraceError):
    """The source archive cannot be read

    Send a zip archive, or the Python files themselves.
    """


class SourceUnsafe(TraceError):
    """The source has file names that are not allowed

    Make the archive anew inside the folder of the source, with relative names and without links.
    """


class SourceTooLarge(TraceError):
    """The source archive unpacks to more than is allowed

    Leave data, weights and generated files out of the archive; send weights as `weights`.
    """


class SourceSyntaxError(TraceError):
    """The source is not valid Python

    Correct the line that the problem names.
    """


class SourceImportFailed(TraceError):
    """The source imports something that is not installed here

    Send the module in the source, or install it beside the service.
    """


class SourceRaised(TraceError):
    """The source raised while it was imported

    Correct the line, or move what it does into the entrypoint: the source is imported before anything is called.
    """


class EntrypointNotFound(TraceError):
    """The source has no such entrypoint

    Write `module:name`: a file of the source without `.py`, and a name that is defined in it.
    """


class EntrypointUnusable(TraceError):
    """The entrypoint is not an nn.Module, a factory of one, or a function

    Name a subclass of nn.Module, an instance of one, a function that returns one, or a function of tensors.
    """


class InitFailed(TraceError):
    """The entrypoint raised while the model was made

    Correct the line that raised, or the arguments that the request gives to the entrypoint.
    """


class WeightsUnreadable(TraceError):
    """The weights file cannot be read

    Save the state dict anew, with safetensors or with torch.save(model.state_dict(), file).
    """


class WeightsMismatch(TraceError):
    """The weights do not fit the model

    Send the weights of this very model, and give its entrypoint the arguments with which they were trained.
    """


class InputsUnreadable(TraceError):
    """An inputs file cannot be read

    Send the tensors as .safetensors, as .npz, or as a .pt file that torch.save wrote.
    """


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
    """The model raised on its example inputs

    Call the model in Python on the same example inputs, and correct the line that raised, or the inputs' shapes,
    datatypes and values.
    """


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
    """The model code went over a limit

    Send smaller example inputs or a smaller model, or raise the limit where the service is started.
    """


class ModelExited(TraceError):
    """The model code ended its process

    Take sys.exit, os._exit and the like out of the model: raise an exception instead.
    """


class ModelCrashed(TraceError):
    """The model code crashed its process

    Call the model in Python on the same example inputs: an operator or an extension ends the process there too. Leave
    it out, or install a version that fits this torch.
    """


class TracerLost(TraceError):
    """The tracing process was lost; the model is not the cause"""

    fault: ClassVar[Fault] = "service"
