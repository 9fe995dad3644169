"""Errors of tracing and scripting: what torch.jit cannot make of a model."""

from tracehouse.errors.base import TraceError


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


class ArchiveUnusable(TraceError):
    """What was traced or scripted could not be loaded again

    Leave out `options.freeze` or `options.optimize_for_inference` where it is that form which fails; otherwise keep
    what the archive cannot hold out of the model.
    """
