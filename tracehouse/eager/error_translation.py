"""Blame: what comes out of submitted code becomes an error of the domain, with the user's line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tracehouse.differential.out_of_memory import PROCESS_MESSAGES
from tracehouse.errors import DeviceNotFound, DevicesDiffer, LimitExceeded, MethodTracedAsFunction, TraceError
from tracehouse.introspection import user_lines

_CAUSES_MAX = 10
_CONFINED = (
    "submitted code has no files, no network and no other processes here: send files in the source, weights as "
    "`weights`, and tensors as inputs"
)
# What comes out of a library, by what it says, where that does not say what to do.
_REMEDIES = [
    (
        "operator torchvision::nms does not exist",
        "torchvision was built for another torch: install the one that matches, or declare its operators before the "
        "import, as examples/models/torchvision_operators.py does",
    ),
    ("No module named", "send it in the source, or install it beside the service; in the sandbox's tier seccomp, name "
                        "it in PRELOAD besides"),
    # What the jail refuses, as the kernel and what stands on it say it.
    *((words, _CONFINED) for words in (
        "Permission denied", "Operation not permitted", "Read-only file system", "No such file or directory: '/",
        "No usable temporary directory", "name resolution", "Name or service not known",
    )),
]  # fmt: skip
# By what torch says, wherever the source's code was when it said so.
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
    """Around submitted code: any exception leaves as `kind`, or as what torch says by which it has a name of its own.

    A TraceError raised inside stays what it is.
    """
    try:
        yield
    except TraceError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise out_of_memory_error(error) from error
        text = user_lines.error_text(error)
        named = next((named for words, named in _NAMED if words in text), kind)
        detail = f"{doing} {type(error).__name__}: {user_lines.public_error_text(error)}"
        raise named(detail, **user_lines.error_facts(error), **remedy_of(error), **facts) from error


def remedy_of(error: BaseException) -> dict[str, str]:
    """As a fact, where there is one. Libraries put what happened behind errors of their own, as transformers does."""
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(texts) < _CAUSES_MAX:
        texts.append(user_lines.error_text(cause))
        cause = cause.__cause__ or cause.__context__
    text = "\n".join(texts)
    return next(({"remedy": remedy} for words, remedy in _REMEDIES if words in text), {})


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError | OSError) and any(
        words in user_lines.error_text(error) for words in PROCESS_MESSAGES
    )


def out_of_memory_error(error: BaseException) -> LimitExceeded:
    return LimitExceeded(
        "the model code asked for more memory than it may have",
        limit="memory",
        remedy="ask for less at once, or raise TRACE_MEMORY_MIB where the service is started",
        **user_lines.error_facts(error),
    )
