"""Low precision: a datatype whose products end the process on this machine is found in a child, and not tried."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
import torch

from tracehouse import check
from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values import low_precision

PRODUCT_OF_BF16 = """\
import torch
from tracehouse.torch_values import low_precision

low_precision.leave_broken_tiles_out()
ones = torch.ones(160, 64, dtype=torch.bfloat16)
print(float(torch.nn.functional.linear(ones, ones)[0, 0]))
"""


def _die(_: torch.dtype) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(0)


def _hang(_: torch.dtype) -> NoReturn:
    while True:
        time.sleep(60)


@pytest.fixture
def product(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[torch.dtype], None]], None]]:
    """Put something else in the place of the product that the child tries, on a processor with tiles."""

    def put(multiply: Callable[[torch.dtype], None]) -> None:
        monkeypatch.setattr(low_precision, "_has_tiles", lambda: True)
        monkeypatch.setattr(low_precision, "_multiply", multiply)
        low_precision.crashes.cache_clear()

    yield put
    monkeypatch.undo()
    low_precision.crashes.cache_clear()
    low_precision.leave_broken_tiles_out()


@pytest.mark.parametrize("multiply", [_die, _hang])
def test_a_product_that_ends_or_hangs_a_child_is_not_made_here(
    product: Callable[..., None], monkeypatch: pytest.MonkeyPatch, multiply: Callable[[torch.dtype], None]
) -> None:
    monkeypatch.setattr(low_precision, "_PROBE_S", 1.0)
    product(multiply)

    assert low_precision.crashes(torch.bfloat16)
    assert not low_precision.crashes(torch.float32)


def test_where_no_child_may_be_forked_nothing_is_risked(
    product: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise PermissionError

    product(_die)
    monkeypatch.setattr(os, "fork", refuse)

    assert low_precision.crashes(torch.float16)


def test_where_others_wait_for_the_child_nothing_is_risked(product: Callable[..., None]) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets children that end
    try:
        product(lambda _: os._exit(0))
        assert low_precision.crashes(torch.float16)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_check_does_not_try_datatypes_that_would_end_its_process(product: Callable[..., None]) -> None:
    product(_die)
    report = check(torch.nn.ReLU(), torch.zeros(2, 3))

    assert report.contract.method("forward").inputs[0].datatypes == [Datatype.FP32, Datatype.FP64]


def test_with_tiles_left_out_products_of_bf16_can_be_made_on_every_machine() -> None:
    plain = {name: value for name, value in os.environ.items() if name != "ONEDNN_MAX_CPU_ISA"}
    done = subprocess.run(
        [sys.executable, "-c", PRODUCT_OF_BF16], env=plain, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "64.0\n"), done.stderr
