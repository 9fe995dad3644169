"""The caller's process, in which a live model is checked: it is left as it was."""

import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from tracehouse.errors import ModelExited
from tracehouse.introspection import paths, user_lines

# The device types whose autocast torch.jit.trace records.
_AUTOCAST_DEVICES = ("cpu", "cuda")


def refuse_autocast() -> None:
    """Raise RuntimeError under torch.autocast: its casts of weights are kept from call to call, and are no part of the
    model."""
    if any(torch.is_autocast_enabled(device) for device in _AUTOCAST_DEVICES):
        raise RuntimeError(
            "tracehouse.check cannot run under torch.autocast, whose casts are no part of the model: enter "
            "torch.autocast inside of forward, or leave it before the check"
        )


@contextmanager
def restore_process() -> Iterator[None]:
    """Put random generators, warning filters and the global settings of torch and NumPy back as they were."""
    restores = [
        *_restores_of_generators(),
        _restore_by(torch.set_default_dtype, torch.get_default_dtype()),
        _restore_by(torch.set_num_threads, torch.get_num_threads()),
        _restore_by(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision()),
        _restore_by(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled()),
        _restore_by(lambda errors: np.seterr(**errors), np.geterr()),
        _restore_of_determinism(),
        _restore_of_default_device(),
    ]
    with warnings.catch_warnings(), torch.inference_mode(False), torch.set_grad_enabled(torch.is_grad_enabled()):
        try:
            yield
        finally:
            for restore in restores:
                restore()


def _restore_by(setter: Callable[[Any], object], value: Any) -> Callable[[], object]:
    return lambda: setter(value)


def _restores_of_generators() -> list[Callable[[], object]]:
    restores = [
        _restore_by(torch.set_rng_state, torch.get_rng_state()),
        _restore_by(random.setstate, random.getstate()),
        _restore_by(np.random.set_state, np.random.get_state()),
    ]
    if torch.cuda.is_initialized():  # to ask CUDA would begin it, where nothing has yet
        restores.append(_restore_by(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()))
    return restores


def _restore_of_determinism() -> Callable[[], object]:
    enabled, cudnn = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    deterministic, benchmark = cudnn.deterministic, cudnn.benchmark

    def restore() -> None:
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
        cudnn.deterministic, cudnn.benchmark = deterministic, benchmark

    return restore


def _restore_of_default_device() -> Callable[[], object]:
    def find() -> Any:
        return getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)

    before = find()

    def restore() -> None:
        if find() is not before:
            torch.set_default_device(None if before is None else before.device)

    return restore


@contextmanager
def exits_as_errors() -> Iterator[None]:
    """Raise ModelExited where the model calls sys.exit, which would end the caller's program."""
    try:
        yield
    except SystemExit as error:
        raise ModelExited(
            f"the model code called sys.exit({user_lines.error_text(error)})", **user_lines.error_facts(error)
        ) from error


@contextmanager
def user_modules(model: torch.nn.Module | Callable[..., Any]) -> Iterator[None]:
    """Treat the modules of the user that define the model as those of a submission: what they hold is watched, put back
    before each call, and preferred for a finding's line."""
    owner = getattr(model, "__self__", model)
    parts = [*owner.modules()] if isinstance(owner, torch.nn.Module) else []
    functions = [getattr(type(part), "forward", None) for part in parts] or [model]
    added = {}
    for function in functions:
        file = str(getattr(getattr(function, "__code__", None), "co_filename", "<none>"))
        name = str(getattr(function, "__module__", None))
        is_own = user_lines.is_user(file) and not paths.SITE_PACKAGES.match(file)
        if is_own and name in sys.modules and file not in user_lines.submitted:
            added[file] = name
    user_lines.submitted.update(added)
    try:
        yield
    finally:
        for file in added:
            user_lines.submitted.pop(file, None)
