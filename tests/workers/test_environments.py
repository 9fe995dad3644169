"""Traces in environments: what pip installed is imported in the jail, and nowhere else."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.domain.environment import Environment
from service.domain.trace_request import TraceRequest
from service.environments.environments import Environments
from service.environments.installer import install
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import TENANT
from tests.environments import add_environment
from tests.wheels import write_requirements, write_wheel
from tests.workers.conftest import LIMITS, unhurried
from tracehouse.differential import golden
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.trace_spec import TraceSpec
from workers.worker import Worker

SCALED = """
import scales
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x * scales.FACTOR
"""
LATE = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        import scales
        return x * scales.FACTOR
"""

TraceIn = Callable[..., TraceRequest]


@pytest.fixture(scope="module")
def doubles(environments: Environments, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return _install(environments, tmp_path_factory.mktemp("wheels"), "doubles", "1.0", 2)


@pytest.fixture(scope="module")
def triples(environments: Environments, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return _install(environments, tmp_path_factory.mktemp("wheels"), "triples", "2.0", 3)


def _install(environments: Environments, folder: Path, name: str, version: str, factor: int) -> Environment:
    write_wheel(folder, "scales_for_tests", version, "scales", f"FACTOR = {factor}")
    return install(environments, name, write_requirements(folder, "scales_for_tests"), lambda line: None)


@pytest.fixture
def trace_in(store: Store, torch_zygote: Zygote, environments: Environments) -> TraceIn:
    """The request as it stands after one attempt in this environment."""

    def trace_in(environment: Environment | None, source: str, **members: Any) -> TraceRequest:
        submitted = {
            "model": "net",
            "source": {"files": {"net.py": source}, "entrypoint": "net:Net"},
            "example_inputs": [{"datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}],
            "environment": None if environment is None else environment.name,
            **members,
        }
        spec = TraceSpec.model_validate(unhurried(submitted))
        ref = None if environment is None else environment.ref
        request = TraceRequest.new(spec, {}, torch_version="2", tenant=TENANT, environment=ref)
        store.trace_requests.add(request)
        Worker(store, torch_zygote, environments, LIMITS, attempts=2).run(request.id, Cancellation())
        return store.trace_requests.get(TENANT, request.id)

    return trace_in


def example_answer(store: Store, request: TraceRequest) -> list[float]:
    """What the artifact answers to the example, which its runner has replayed."""
    artifact = store.artifacts.get(TENANT, request.artifacts[0].digest)
    with store.blobs.open(artifact.golden.digest) as file:
        [case, *_] = golden.read(os.dup(file.fileno()))
    return np.frombuffer(case.outputs[0].data, np.float32).tolist()


def test_two_versions_of_a_package_give_each_its_own_answer(
    trace_in: TraceIn, store: Store, doubles: Environment, triples: Environment
) -> None:
    answers = {}
    for environment in (doubles, triples):
        request = trace_in(environment, SCALED)
        assert request.verdict is Verdict.VERIFIED, request.failure
        answers[environment.name] = example_answer(store, request)

    assert answers == {"doubles": [2.0, 4.0], "triples": [3.0, 6.0]}


def test_the_artifact_names_the_environment_that_it_was_made_in(
    trace_in: TraceIn, store: Store, doubles: Environment
) -> None:
    request = trace_in(doubles, SCALED)

    assert request.environment == doubles.ref
    assert store.artifacts.get(TENANT, request.artifacts[0].digest).environment == doubles.ref


def test_an_eager_run_imports_from_its_environment(trace_in: TraceIn, doubles: Environment) -> None:
    request = trace_in(doubles, LATE, mode="eager")

    assert request.failure is None
    assert request.outputs is not None


@pytest.mark.parametrize("source", [SCALED, LATE])
def test_the_remedy_for_a_missing_package_names_the_environments_that_have_it(
    trace_in: TraceIn, doubles: Environment, triples: Environment, source: str
) -> None:
    failure = trace_in(None, source).failure

    assert failure is not None
    assert failure.facts["missing_module"] == "scales"
    assert failure.facts["environments"] == ["doubles", "triples"]
    assert "environment triples has scales_for_tests 2.0" in str(failure.facts["remedy"])
    assert "environment: doubles" in str(failure.facts["remedy"])


def test_a_package_that_no_environment_has_keeps_its_remedy(trace_in: TraceIn, doubles: Environment) -> None:
    failure = trace_in(doubles, "import no_such_package\n" + SCALED).failure

    assert failure is not None
    assert failure.facts["missing_module"] == "no_such_package"
    assert "environments" not in failure.facts
    assert "stub_missing" in str(failure.facts["remedy"])


def test_a_request_whose_environment_was_changed_is_not_run_in_another(
    trace_in: TraceIn, environments: Environments
) -> None:
    old = add_environment(environments, "changing", "FACTOR = 2")
    add_environment(environments, "changing", "FACTOR = 3")

    failure = trace_in(old, SCALED).failure

    environments.delete("changing")
    assert failure is not None
    assert failure.slug == "environment-gone"


def test_what_is_in_an_environment_never_runs_outside_of_the_jail(
    trace_in: TraceIn, environments: Environments, tmp_path: Path
) -> None:
    """Its modules are not imported by the service, and files that Python runs at its start are not run."""
    left = tmp_path / "left"
    leave = f"import io; io.FileIO({str(left)!r}, 'w')\n"
    hostile = add_environment(environments, "hostile", leave + "FACTOR = 2")
    [folder] = environments.packages_of(hostile)
    Path(folder, "hostile.pth").write_text(leave)

    failure = trace_in(hostile, SCALED).failure

    environments.delete("hostile")
    assert failure is not None
    assert failure.slug == "source-raised"
    assert not left.exists()


def test_a_counterexample_says_which_packages_its_test_needs(
    trace_in: TraceIn, store: Store, doubles: Environment
) -> None:
    branches = SCALED.replace("return x * scales.FACTOR", "return x * scales.FACTOR if x.sum() > 0 else x - 1")

    request = trace_in(doubles, branches, accept_unsound=True)

    assert request.verdict is Verdict.REJECTED, request.failure
    [found, *_] = store.artifacts.get(TENANT, request.artifacts[0].digest).counterexamples
    with store.blobs.open(found.test.digest) as file:
        text = " ".join(file.read().decode().split())
    assert "where torch and the packages of environment doubles are installed" in text
