"""Fixtures of the tests that load models in this process: for those of the library and of the workers."""

import atexit
import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch

from tests.submissions import text
from tracehouse.check.instrumentation import followed_code
from tracehouse.eager import model
from tracehouse.eager.model import LoadedModel
from tracehouse.eager.source import Source
from tracehouse.spec.trace_spec import Init
from tracehouse.tensors.tensor import Tensor
from tracehouse.torch_values import low_precision
from tracehouse.torch_values.tensors import DTYPES, pack

MANY_OBJECTS = 20_000  # a check looks through so many a few times, in a millisecond each
_aside = ExitStack()
atexit.register(_aside.close)  # at the end of the process, what it calls is gone


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(1)  # several processes test side by side: more threads would wait for each other
    # pytest takes what a logger keeps to itself, and torch describes each step of a proof for whoever takes it.
    logging.getLogger("torch.__trace").propagate = True
    low_precision.leave_broken_tiles_out()  # or tests of BF16 end their process on some machines
    config.addinivalue_line("filterwarnings", r"ignore:`torch\.jit\.")


@pytest.fixture(autouse=True)
def objects_set_aside() -> None:
    """What is imported, and what tests before have left, is looked through once, and not in each check.

    Once a process is too seldom: the first check imports half of torch, and more stays with every file.
    """
    if followed_code._set_aside.is_filled:
        if len(gc.get_objects()) < MANY_OBJECTS:
            return
        gc.collect()
        if len(gc.get_objects()) < MANY_OBJECTS:
            return
    _aside.close()
    _aside.enter_context(followed_code.set_objects_aside())


@pytest.fixture
def every_datatype() -> list[Tensor]:
    """One tensor of each, named as it."""
    return pack({datatype.value: torch.tensor([0, 1, 1]).to(dtype) for datatype, dtype in DTYPES.items()})


@pytest.fixture
def installed() -> Iterator[Callable[[Source], Source]]:
    """Sources that can be imported until the test's end."""
    sources: list[Source] = []

    def install(source: Source) -> Source:
        source.install()
        sources.append(source)
        return source

    yield install
    for source in reversed(sources):
        source.uninstall()


@pytest.fixture
def load(installed: Callable[[Source], Source]) -> Callable[..., LoadedModel]:
    """The model of one of tests/models."""

    def load(name: str, entrypoint: str = "Net", *args: Any, seed: int = 0, **kwargs: Any) -> LoadedModel:
        source = installed(Source.from_text({f"{name}.py": text(name)}))
        return model.load(source, f"{name}:{entrypoint}", Init(args=list(args), kwargs=kwargs), seed)

    return load
