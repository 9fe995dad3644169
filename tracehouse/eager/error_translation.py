"""Error translation: an exception from submitted code becomes an error of ours, with the user's line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tracehouse.differential.out_of_memory import PROCESS_MESSAGES
from tracehouse.eager.stubbed_packages import StubUsed
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
# Remedies for messages of libraries that have none: a part of the message, and what to do.
_REMEDIES = [
    (
        "operator torchvision::nms does not exist",
        "torchvision was built for another version of torch: install a version that matches, or declare its operators "
        "before the import, as examples/models/torchvision_operators.py does",
    ),
    ("No module named", "install it; for a trace request, send it in the source, or install it beside the service, and "
                        "in the sandbox's tier seccomp name it in PRELOAD as well. If the model only imports it, and "
                        "does not use it, name the package in `source.stub_missing`"),
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
    "importing 'net' raised". A TraceError passes unchanged. If memory ran out, LimitExceeded is raised.
    """
    try:
        yield
    except TraceError:
        raise
    except StubUsed as used:
        raise stub_used_error(used) from used
    except Exception as error:
        if is_out_of_memory(error):
            raise out_of_memory_error(error) from error
        text = user_lines.error_text(error)
        named = next((named for words, named in _NAMED if words in text), kind)
        detail = f"{doing} {type(error).__name__}: {user_lines.public_error_text(error)}"
        raise named(detail, **user_lines.error_facts(error), **remedy_of(error), **facts) from error


def remedy_of(error: BaseException) -> dict[str, str]:
    """Return the remedy for an error as a fact, or nothing if none is known.

    The causes are searched too: libraries such as transformers wrap the real error in one of their own.
    """
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(texts) < _CAUSES_MAX:
        texts.append(paths.without_source_folder(user_lines.error_text(cause)))
        cause = cause.__cause__ or cause.__context__
    text = "\n".join(texts)
    return next(({"remedy": remedy} for words, remedy in _REMEDIES if words in text), {})


def stub_used_error(used: StubUsed) -> StubbedPackageUsed:
    """Return the error to report for a stub that was used."""
    return StubbedPackageUsed(str(used), package=used.package, **user_lines.error_facts(used))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the error says that this process has no more memory."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError | OSError) and any(
        words in user_lines.error_text(error) for words in PROCESS_MESSAGES
    )


def out_of_memory_error(error: BaseException) -> LimitExceeded:
    """Return the error to raise in place of one that `is_out_of_memory`."""
    return LimitExceeded(
        "the model code asked for more memory than it may use",
        limit="memory",
        remedy="use less memory at a time; where a service is started, TRACE_MEMORY_MIB raises its limit",
        **user_lines.error_facts(error),
    )
