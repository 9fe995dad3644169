"""Errors of tracing and scripting: what torch.jit cannot make of a model."""

from tracehouse.errors.base import TraceError


class UnsupportedOutput(TraceError):
    """The model returns something that cannot be served

    Return tensors, in tuples, lists, dicts, named tuples or dataclasses, and numbers, texts, booleans and None beside
    them.
    """


class OutputNotTensor(UnsupportedOutput):
    """The model returns no tensor, or something that is neither a tensor nor a constant

    Return at least one tensor. Beside tensors, only numbers, texts, booleans and None can be returned: the contract
    keeps them as constants.
    """


class OutputWithoutDatatype(UnsupportedOutput):
    """The model returns a tensor that has no datatype in the Open Inference Protocol

    Return `y.dequantize()` for a quantised tensor, `y.to_dense()` for a sparse one, and `y.to(torch.float32)` for
    others.
    """


class OutputWithoutValues(UnsupportedOutput):
    """The model returns a tensor that has a shape but no values

    Return tensors on the inputs' device: tensors on the device `meta` or of a FakeTensorMode have no values.
    """


class OutputNotJson(UnsupportedOutput):
    """The model returns something that JSON cannot hold

    Return integers of at most 64 bits, and text and dict keys without lone surrogates.
    """


class MixedOutput(UnsupportedOutput):
    """The model returns a list or a dict of values that are not all of one type

    Leave `strict` at true: then the artifact returns the tensors, and the contract keeps the lists and dicts. Or return
    a tuple or a NamedTuple, whose items may differ.
    """


class UnsupportedDict(UnsupportedOutput):
    """The model returns a dict that TorchScript cannot return

    Leave `strict` at true: then the artifact returns the tensors, and the contract keeps the dicts. Or return a
    NamedTuple.
    """


class UntraceableModel(TraceError):
    """torch could not trace the model

    Take what torch's message names out of `forward`, or compute it with other operators; or, in a trace request, let
    `mode` be auto or script.
    """


class OutputNotTraced(UntraceableModel):
    """An output does not come from the inputs by operators that torch records

    Compute it with torch's operators: a trace does not see what goes through `.data`, numpy or `resize_`.
    """


class ErrorCaughtInTrace(UntraceableModel):
    """An operator raised an error during the trace, and the model caught it

    Use an operator that does not raise, such as `torch.linalg.cholesky_ex` in place of `torch.linalg.cholesky`, or let
    `mode` be script: torch's tracer stops where an operator raises.
    """


class MixedInput(UntraceableModel):
    """An argument is a list or a dict of values that are not all of one type

    Pass a tuple, or one argument for each value: in a trace, all items of a list or a dict have one type.
    """


class ConstantRequiresGrad(UntraceableModel):
    """The model uses a tensor that requires grad and is not part of the model

    Register the tensor, or the module that holds it, in `__init__` of the model, make it an input, or detach it.
    """


class SharedParameters(UntraceableModel):
    """A module has the same parameter or buffer under two names

    Register it under one of them, and use that one in both places; two modules may share a parameter.
    """


class BackwardHooks(UntraceableModel):
    """A module has backward hooks, which a trace cannot keep

    Register the hook where the model is trained, or remove it before the model is submitted.
    """


class PythonFunctionCalled(UntraceableModel):
    """A scripted part of the model calls a Python function, which an archive cannot hold

    Let torch.jit.script compile that function too (remove @torch.jit.ignore), or do not script the part that calls it:
    a trace records what Python does.
    """


class ModuleNotRegistered(UntraceableModel):
    """The model calls a scripted or traced module that is not part of it

    Assign the module in `__init__` of the model, or put it into an nn.ModuleList.
    """


class TracingNested(UntraceableModel):
    """The model calls torch.jit.trace itself

    Remove torch.jit.trace from `forward`: everything that forward calls is traced with it.
    """


class CompiledModel(UntraceableModel):
    """A part of the model was made by torch.compile

    Submit the model without torch.compile.
    """


class ScriptingFailed(TraceError):
    """torch could not script the model

    Annotate the types of values that are not tensors, put calls that the artifact does not need behind
    `if not torch.jit.is_scripting():`, or trace the model instead.
    """


class MethodNotCompiled(TraceError):
    """The method exists in Python but not in the compiled model

    Mark it with @torch.jit.export, or name a compiled method.
    """


class ArchiveUnreadable(TraceError):
    """The uploaded file is not a TorchScript archive

    Upload a file that torch.jit.save or ScriptModule.save wrote. A state dict belongs in `weights`, Python code in
    `source.file`.
    """


class ArchiveUnusable(TraceError):
    """The archive could not be loaded again

    Leave out `options.freeze` or `options.optimize_for_inference` if that form fails. Otherwise, remove from the model
    what the archive cannot hold.
    """
