"""Error translation: an exception from submitted code becomes an error of ours, with the user's line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tracehouse.differential.out_of_memory import PROCESS_MESSAGES
from tracehouse.eager.stubbed_packages import StubUsed, take_use
from tracehouse.errors import (
    DeviceNotFound,
    DevicesDiffer,
    LimitExceeded,
    MethodTracedAsFunction,
    StubbedPackageUsed,
    TraceError,
)
from tracehouse.introspection import paths, user_lines

_CAUSES_MAX = 10
_CONFINED = (
    "in a trace request, the model cannot use the machine's files, the network or other processes: send files in the "
    "source and open them there, weights as `weights`, and tensors as inputs"
)
_FIT_SHAPES = (
    "give each example input the shape that the line takes (batch and channels come first), or give the layer the "
    "sizes of the inputs"
)
_FIT_DATATYPES = (
    "give each example input the datatype that the line takes: INT64 for ids and indices, that of the weights for "
    "others; or convert it in forward, as x.to(self.weight.dtype)"
)
# Remedies for messages of libraries that have none: a part of the message, and what to do.
_REMEDIES = [
    (
        "operator torchvision::nms does not exist",
        "torchvision was built for another version of torch: install a version that matches, or declare its operators "
        "before the import, as examples/models/torchvision_operators.py does: a live model is sent with "
        "imports=[\"torchvision_operators\"] then",
    ),
    (
        "attempted relative import",
        "the file is a part of a package: send the whole package, and name the entrypoint from it, as package.net:Net; "
        "at the shell, `tracehouse check DIRECTORY package.net:Net`, where DIRECTORY is the one that has the package",
    ),
    ("No module named", "install it; for a trace request, send it in the source, or install it beside the service, and "
                        "in the sandbox's tier seccomp name it in PRELOAD as well. If the model only imports it, and "
                        "does not use it, name the package in `source.stub_missing`"),
    *((words, _FIT_SHAPES) for words in (
        "shapes cannot be multiplied", "must match the size of tensor", "must match the existing size",
        "input of size", "Given groups=", "but got input of size", "must have same number of dimensions",
        "Sizes of tensors must match", "D input (got ", "must match except in dimension",
    )),
    *((words, _FIT_DATATYPES) for words in (
        "to have the same dtype", "must have the same dtype", "expected scalar type", "and weight type",
        "and bias type", "one of the following scalar types", "expected m1 and m2 to have",
    )),
    *((words, "send a number for this argument in place of a tensor: at the shell int:3 or 0.5, since 3 "
              "alone is a shape") for words in (
        "must be int, not Tensor", "must be float, not Tensor", "must be Number, not Tensor",
    )),
    ("view size is not compatible", "use reshape in place of view, or call contiguous() first"),
    *((words, "send integers that are smaller than the size that they index: `high` of a random input bounds them; or "
              "correct the index") for words in ("index out of range in self", "is out of bounds for dimension")),
    ("not implemented for 'Half'", "compute in float32 or bfloat16: this operator has no float16 on this device"),
    ("does not require grad and does not have a grad_fn",
        "take the gradient inside `with torch.enable_grad():`, of x.detach().requires_grad_(): models are called with "
        "gradients off"),
    ("Can't call numpy() on Tensor that requires grad",
        "compute with torch operators, or call detach() before numpy()"),
    ("leaf Variable that requires grad", "use the operator that is not in place, or write to a buffer"),
    ("(torch.nn.Parameter or None expected)",
        "assign the tensor to another name, or register that name as a buffer: it is a parameter"),
    ("'NoneType' object", "an argument or an attribute is None here: send a value for it, or test `is not None`"),
    ("before Module.__init__() call", "call super().__init__() before anything is assigned"),
    # What the jail refuses, in the words of the kernel and of the libraries above it.
    *((words, _CONFINED) for words in (
        "Permission denied", "Operation not permitted", "Read-only file system", "No such file or directory: '/",
        "No usable temporary directory", "name resolution", "Name or service not known",
    )),
]  # fmt: skip
# Messages of torch that have an error of their own, whatever the source was doing: a part of the message, the error.
_NAMED: list[tuple[str, type[TraceError]]] = [
    *((words, DeviceNotFound) for words in (
        "Torch not compiled with CUDA enabled", "Found no NVIDIA driver", "No CUDA GPUs are available",
        "torch.cuda.is_available() is False", "no CUDA-capable device", "PyTorch is not linked with support for",
    )),
    *((words, DevicesDiffer) for words in (
        "Expected all tensors to be on the same device", "is not on the expected device",
        "Cannot copy out of meta tensor", "cannot be called on meta tensors",
    )),
    ("trace doesn't support compiling individual module's functions", MethodTracedAsFunction),
    ("expected torch.nn.Module as the first argument", MethodTracedAsFunction),
]  # fmt: skip


@contextmanager
def translate_errors(kind: type[TraceError], doing: str, **facts: Any) -> Iterator[None]:
    """Turn any exception of the submitted code inside into a TraceError with the user's line.

    `kind` is raised, or a more exact error where torch's message is known. `doing` begins the detail, such as
    "importing 'net' raised". A TraceError passes unchanged. If memory ran out, LimitExceeded is raised; if a stub of a
    missing package was used, StubbedPackageUsed, also if the submitted code caught that.
    """
    try:
        yield
        if (caught := take_use()) is not None:
            raise caught
    except TraceError:
        raise
    except StubUsed as used:
        take_use()
        raise stub_used_error(used) from used
    except Exception as error:
        if (caught := take_use()) is not None:
            raise stub_used_error(caught) from error
        if is_out_of_memory(error):
            raise out_of_memory_error(error) from error
        text = user_lines.full_error_text(error)
        named = next((named for words, named in _NAMED if words in text), kind)
        detail = f"{doing} {type(error).__name__}: {user_lines.public_error_text(error)}"
        raise named(detail, **user_lines.error_facts(error), **remedy_of(error), **facts) from error


def remedy_of(error: BaseException) -> dict[str, str]:
    """Return the remedy for an error as a fact, or nothing if none is known; and the module that was not found, if any.

    The causes are searched too: libraries such as transformers wrap the real error in one of their own.
    """
    causes = list(_causes(error))
    text = "\n".join(paths.without_source_folder(user_lines.full_error_text(cause)) for cause in causes)
    remedy = next(({"remedy": remedy} for words, remedy in _REMEDIES if words in text), {})
    missing = next((cause.name for cause in causes if isinstance(cause, ModuleNotFoundError) and cause.name), None)
    return remedy if missing is None else remedy | {"missing_module": str(missing)}


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what caused it, as far as `_CAUSES_MAX`."""
    cause: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__


def stub_used_error(used: StubUsed) -> StubbedPackageUsed:
    """Return the error to report for a stub that was used."""
    return StubbedPackageUsed(str(used), package=used.package, **user_lines.error_facts(used))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the error says that this process has no more memory."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError | OSError) and any(
        words in user_lines.full_error_text(error) for words in PROCESS_MESSAGES
    )


def reports_no_memory(error: BaseException) -> bool:
    """Whether memory ran out: the error says so itself, or was translated to LimitExceeded."""
    return is_out_of_memory(error) or (isinstance(error, LimitExceeded) and error.facts.get("limit") == "memory")


def out_of_memory_error(error: BaseException) -> LimitExceeded:
    """Return the error to raise in place of one that `is_out_of_memory`."""
    return LimitExceeded(
        "the model code asked for more memory than it may use",
        limit="memory",
        remedy="use less memory at a time; where a service is started, TRACE_MEMORY_MIB raises its limit",
        **user_lines.error_facts(error),
    )
