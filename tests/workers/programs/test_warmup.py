"""The warm process: what torch imports when it is first used has been, so that a jail without files has it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.sandbox import choose_tier
from service.sandbox.cancellation import Cancellation
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, TENANT
from tests.submissions import spec
from tests.workers.conftest import LIMITS
from tracehouse.findings.verdict import Verdict
from workers.worker import Worker

IMAGE = {"datatype": "FP32", "shape": [2, 3, 8, 8], "random": {"seed": 0}}


@pytest.fixture(scope="module")
def without_files() -> Iterator[Zygote]:
    """Of all tiers the one whose children can open none, not even those of installed packages."""
    if (fault := choose_tier.fault_of(Tier.SECCOMP)) is not None:
        pytest.skip(fault)
    programs = [
        "workers.programs.tracer",
        "workers.programs.reference",
        "workers.programs.runner",
        "workers.programs.packer",
    ]
    with Zygote(["workers.programs.tracer_warmup", *programs], tier=Tier.SECCOMP) as zygote:
        yield zygote


@pytest.mark.parametrize(
    "members",
    [
        {"training": True},
        {"options": {"freeze": True}},
        {"options": {"optimize_for_inference": True, "precision": "bfloat16"}},
        {"options": {"precision": "float16"}},
        {"options": {"precision": "float64"}, "check": {"gradients": True}},
    ],
    ids=str,
)
def test_nothing_is_left_to_import(
    store: Store, without_files: Zygote, add: Callable[..., str], members: dict[str, Any]
) -> None:
    request_id = add(spec("convolves", example_inputs=[IMAGE], **members))
    Worker(store, without_files, NO_ENVIRONMENTS, LIMITS, attempts=2).run(request_id, Cancellation())

    request = store.trace_requests.get(TENANT, request_id)
    assert request.failure is None, request.failure
    assert request.verdict is Verdict.VERIFIED, request.findings


def test_the_warm_up_does_not_ask_cuda_for_a_gpu(tmp_path: Path) -> None:
    """A process that has asked cannot be forked for CUDA. Only torch's CUDA build would show it by itself."""
    (tmp_path / "refuses.py").write_text(
        "import torch\n"
        "def refuse(*_):\n    raise SystemExit('CUDA was asked')\n"
        "torch._C._ensureCUDADeviceGuardSet = refuse\n"
    )
    programs = ["refuses", "workers.programs.tracer_warmup", "workers.programs.tracer"]
    with Zygote(programs, path=[tmp_path], tier=Tier.NONE) as zygote:
        assert zygote.warnings == []
