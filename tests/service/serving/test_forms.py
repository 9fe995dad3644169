"""Forms raced beside a real runner: what differs is kept out, what wins answers, and what fails is taken back."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from service.domain.form_race import FormRace, FormTrial
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.serving.forms import Forms, why_saved
from service.serving.pool import Pool
from service.serving.runner import Runner, RunnerState
from service.storage.blobs import Blobs
from tests.conftest import PATIENCE_S
from tests.pool_limits import pool_limits
from tests.service.serving.test_pool import TENANT, ask, inputs, until
from tracehouse.artifact.manifest import Artifact
from tracehouse.byte_units import MIB
from tracehouse.contract.contract import Batch, Contract, MethodClaim
from tracehouse.contract.regions import Region, Span
from tracehouse.errors import GraphRaised, RunnerLost
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.raced_form import RacedForm, package_versions
from tracehouse.tensors.tensor import unpack
from workers.form_race import FormRunner, TakeTime
from workers.limits import TraceLimits

pytestmark = pytest.mark.anyio

TRIAL = TraceLimits(
    wall_s=PATIENCE_S,
    cpu_s=1200,
    memory_mib=8192,
    threads=1,
    log_max_bytes=0,
    source_max_bytes=0,
    child_threads_max=256,
    child_open_files_max=128,
)


class Layers(torch.nn.Module):
    """Gives the same answers in every form."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


class Overflows(torch.nn.Module):
    """Freezing multiplies the weights of both layers, which overflows; one after the other, their answers do not."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.norm = torch.nn.Conv1d(1, 1, 1, bias=False), torch.nn.BatchNorm1d(1, eps=0.0)
        torch.nn.init.constant_(self.small.weight, 1e30)
        self.norm.running_var.fill_(1e-20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.small(x * 1e-30))


class Rectifies(torch.nn.Module):
    """A convolution and a rectifier: fused by oneDNN, they answer numbers to what is not a number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(1, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))


class RectifiesShares(Rectifies):
    """It makes what is not a number of zeros."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x / x.abs().sum())


class Pick(torch.nn.Module):
    """Raises on an index that the table does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.arange(4.0))

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.table)[index]


def forms_win(form: RacedForm | None, call: Callable[[], object]) -> float:
    """Every form is twice as fast as the one as saved."""
    call()
    return 2.0 if form is None else 1.0


def wins(winner: RacedForm) -> TakeTime:
    def take_time(form: RacedForm | None, call: Callable[[], object]) -> float:
        call()
        return 1.0 if form is winner else 2.0

    return take_time


def forms_lose(form: RacedForm | None, call: Callable[[], object]) -> float:
    call()
    return 1.0


def never(*_: object) -> None:
    pytest.fail("there was a race")


NewForms = Callable[..., Forms]


@pytest.fixture
def new_forms(torch_zygote: Zygote, blobs: Blobs, tmp_path: Path) -> NewForms:
    """Forms that keep their results in one directory, as those of one service after another do."""

    def new_forms(measure: TakeTime = forms_win, **changes: Any) -> Forms:
        run = FormRunner(torch_zygote, blobs, TRIAL, measure).run
        usual = {
            "run": run,
            "machine": lambda threads: f"this one, threads: {threads}",
            "torch_version": torch.__version__,
            "packages": package_versions(),
        }
        return Forms(tmp_path / "forms", **(usual | changes))

    return new_forms


@pytest.fixture
async def new_racing_pool(torch_zygote: Zygote, blobs: Blobs) -> AsyncIterator[Callable[..., Pool]]:
    """Pools that race forms; closed when the test ends."""
    pools = []

    def new_pool(forms: Forms, **changes: Any) -> Pool:
        pools.append(Pool(torch_zygote, blobs, pool_limits(**changes), forms=forms))
        return pools[-1]

    yield new_pool
    for pool in pools:
        await pool.close(grace_s=0)


def form_of(pool: Pool, artifact: Artifact) -> RacedForm | None:
    return pool.runners[TENANT, artifact.digest, 1].raced_form


async def race(forms: Forms, artifact: Artifact) -> FormRace:
    found = await forms.race(artifact, artifact.digest, 1)
    assert found is not None
    return found


def reasons(found: FormRace) -> dict[RacedForm, str | None]:
    return {one.form: one.out for one in found.trials}


@pytest.fixture
def layers(trace, blobs: Blobs) -> Artifact:
    return trace(blobs, Layers(), torch.randn(3, 4))


@pytest.fixture
def picks(trace, blobs: Blobs) -> Artifact:
    return trace(blobs, Pick(), torch.tensor([0, 3]))


@pytest.fixture
def overflows(trace, blobs: Blobs) -> Artifact:
    return trace(blobs, Overflows(), torch.randn(2, 1, 3))


X = [[1.0, 2.0, 3.0, 4.0]] * 3


async def test_a_form_that_wins_takes_the_place_of_the_form_as_saved(
    new_forms: NewForms, new_racing_pool, layers: Artifact
) -> None:
    forms = new_forms()
    pool = new_racing_pool(forms)

    answered = await ask(pool, layers, X)
    assert form_of(pool, layers) is None
    await until(lambda: form_of(pool, layers) is not None)

    assert await ask(pool, layers, X) == [pytest.approx(answered[0], rel=1e-5)]
    assert form_of(pool, layers) is RacedForm.FREEZE
    found = forms.find(layers.digest, 1)
    assert found is not None
    assert (found.answers, found.speedup) == (RacedForm.FREEZE, 2.0)
    assert reasons(found) == dict.fromkeys(RacedForm)


async def test_the_next_start_takes_the_form_up_at_once(new_forms: NewForms, new_racing_pool, layers: Artifact) -> None:
    await race(new_forms(), layers)
    pool = new_racing_pool(new_forms(run=never))

    await ask(pool, layers, X)

    assert form_of(pool, layers) is RacedForm.FREEZE


async def ask_as_saved(pool: Pool, artifact: Artifact) -> None:
    digest = artifact.digest
    await pool.infer(TENANT, artifact, digest, "forward", inputs(artifact, X), seed=None, as_saved=True)


async def test_who_wants_the_form_as_saved_gets_it_from_a_pool_that_has_another(
    new_forms: NewForms, new_racing_pool, layers: Artifact
) -> None:
    await race(new_forms(), layers)
    pool = new_racing_pool(new_forms(run=never))
    await ask(pool, layers, X)
    assert form_of(pool, layers) is RacedForm.FREEZE

    await ask_as_saved(pool, layers)

    assert form_of(pool, layers) is None
    await ask(pool, layers, X)
    assert form_of(pool, layers) is None


async def test_no_form_is_raced_for_who_wants_the_form_as_saved(
    new_forms: NewForms, new_racing_pool, layers: Artifact
) -> None:
    raced: list[Any] = []
    pool = new_racing_pool(new_forms(run=lambda *race: raced.append(race)))

    for _ in range(3):
        await ask_as_saved(pool, layers)
    await pool.close(grace_s=0)

    assert raced == []


@pytest.mark.parametrize(
    "changes",
    [
        {"machine": "another one, threads: {}".format},
        {"torch_version": "0.1"},
        {"packages": {**package_versions(), "onnxruntime": "0.1"}},
        {"packages": {**package_versions(), "onnxruntime": None}},
    ],
)
async def test_another_machine_torch_or_runtime_knows_nothing_of_it(
    new_forms: NewForms, layers: Artifact, changes: dict[str, Any]
) -> None:
    await race(new_forms(), layers)

    assert new_forms().find(layers.digest, 1) is not None
    assert new_forms(**changes).find(layers.digest, 1) is None


async def test_with_another_runtime_forms_are_raced_anew(new_forms: NewForms, layers: Artifact) -> None:
    await race(new_forms(), layers)
    without = {**package_versions(), "onnxruntime": None}

    found = await race(new_forms(run=lambda *_: [], packages=without), layers)

    assert (found.packages, found.trials) == (without, [])
    assert new_forms(packages=without).find(layers.digest, 1) == found


async def test_a_form_whose_package_is_missing_takes_no_part(
    new_forms: NewForms, layers: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.form_race.package_versions", lambda: dict.fromkeys(package_versions()))

    found = reasons(await race(new_forms(), layers))

    assert found[RacedForm.FREEZE] is None
    assert found[RacedForm.ONNXRUNTIME] == "onnxruntime is not installed: pip install 'tracehouse-service[forms]'"


async def test_another_runtime_that_differs_at_a_shape_is_taken_back_and_the_call_is_answered_as_saved(
    new_forms: NewForms, new_racing_pool, layers: Artifact
) -> None:
    """Its first answer to each shape is compared. Here, nothing but equal bytes is the same."""
    exact = layers.model_copy(update={"check": layers.check.model_copy(update={"tolerance": 1e-30})})
    await new_forms(wins(RacedForm.ONNXRUNTIME)).race(layers, exact.digest, 1)
    forms = new_forms(run=never)
    pool = new_racing_pool(forms)

    assert await ask(pool, exact, X)

    assert form_of(pool, exact) is None
    await until(lambda: (found := forms.find(exact.digest, 1)) is not None and found.answers is None)
    found = forms.find(exact.digest, 1)
    assert found is not None
    assert "it differs for inputs of the shapes [3, 4]" in found.why


async def test_with_other_threads_forms_are_raced_anew(new_forms: NewForms, layers: Artifact) -> None:
    forms = new_forms()
    await race(forms, layers)
    assert forms.find(layers.digest, 2) is None

    found = await forms.race(layers, layers.digest, 2)

    assert found is not None
    assert found.machine == "this one, threads: 2"
    assert new_forms().find(layers.digest, 2) == found
    assert new_forms().find(layers.digest, 1) != found


async def test_a_form_that_is_no_faster_does_not_answer(new_forms: NewForms, layers: Artifact) -> None:
    found = await race(new_forms(forms_lose), layers)

    assert found.answers is None
    assert reasons(found) == dict.fromkeys(RacedForm)


async def test_a_form_that_answers_otherwise_never_answers(
    new_forms: NewForms, new_racing_pool, overflows: Artifact
) -> None:
    forms = new_forms()
    pool = new_racing_pool(forms)
    x = [[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]]

    before = await ask(pool, overflows, x)
    await until(lambda: forms.find(overflows.digest, 1) is not None)

    assert await ask(pool, overflows, x) == before
    assert form_of(pool, overflows) is None
    found = forms.find(overflows.digest, 1)
    assert found is not None
    assert found.answers is None
    assert all(
        why is not None and ("Infinity" in why or "stands for infinity" in why) for why in reasons(found).values()
    )


async def test_a_form_that_hides_what_is_not_a_number_is_out(new_forms: NewForms, trace, blobs: Blobs) -> None:
    """oneDNN's rectifier makes 0 of it. No golden case and no drawn input shows that."""
    found = await race(new_forms(), trace(blobs, RectifiesShares(), torch.randn(2, 1, 3, 3)))

    assert found.answers is RacedForm.FREEZE
    assert {form for form, why in reasons(found).items() if why is not None and "NaN" in why} == {
        RacedForm.OPTIMIZE_FOR_INFERENCE,
        RacedForm.ONEDNN_FUSION,
    }


@pytest.mark.parametrize("form", RacedForm)
async def test_what_makes_no_such_number_has_any_form_for_usual_values(
    new_forms: NewForms, new_racing_pool, trace, blobs: Blobs, form: RacedForm
) -> None:
    artifact = trace(blobs, Rectifies(), torch.randn(2, 1, 3, 3))
    forms = new_forms(wins(form))
    pool = new_racing_pool(forms)
    unusual = [[[[value] * 3] * 3] for value in (float("nan"), 2e6)]
    before = await ask(pool, artifact, unusual)
    assert "NaN" in str(before)

    await until(lambda: form_of(pool, artifact) is form)

    assert await ask(pool, artifact, unusual) == before
    assert form_of(pool, artifact) is form
    found = forms.find(artifact.digest, 1)
    assert found is not None
    assert reasons(found) == dict.fromkeys(RacedForm)


@pytest.mark.parametrize("form", RacedForm)
async def test_words_of_which_there_is_no_mean_are_answered_as_saved(
    new_forms: NewForms, new_racing_pool, trace, blobs: Blobs, form: RacedForm
) -> None:
    artifact = trace(blobs, MeansWords(), torch.tensor([3, 1, 0, 4]))
    forms = new_forms(wins(form))
    pool = new_racing_pool(forms)
    before = await ask(pool, artifact, [0, 0, 0, 0])
    assert "NaN" in str(before)

    await until(lambda: forms.find(artifact.digest, 1) is not None)
    found = forms.find(artifact.digest, 1)
    assert found is not None
    await until(lambda: form_of(pool, artifact) is found.answers)

    assert await ask(pool, artifact, [0, 0, 0, 0]) == before
    assert found.answers is (form if form in (RacedForm.FREEZE, RacedForm.OPTIMIZE_FOR_INFERENCE) else None)


class MeansWords(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = torch.nn.Embedding(5, 16), torch.nn.Linear(16, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(self.table(ids[ids != 0]).mean(0, keepdim=True)))


class Convolves(torch.nn.Module):
    """Has 64 MiB of weights, and as much again in a form: a norm becomes part of its convolution."""

    def __init__(self) -> None:
        super().__init__()
        layers = [[torch.nn.Conv2d(2048, 2048, 1, bias=False), torch.nn.BatchNorm2d(2048)] for _ in range(4)]
        for layer, _ in layers:
            torch.nn.init.dirac_(layer.weight)
        self.layers = torch.nn.Sequential(*(one for pair in layers for one in pair))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


async def test_a_model_whose_form_has_no_room_beside_others_is_answered_as_saved(
    new_forms: NewForms, new_racing_pool, trace, blobs: Blobs, layers: Artifact
) -> None:
    artifact = trace(blobs, Convolves(), torch.randn(1, 2048, 1, 1))
    won = FormTrial(form=RacedForm.FREEZE, calls=1, form_s=1.0, saved_s=2.0, speedup=2.0, slowest=2.0)
    await race(new_forms(run=lambda *_: [won]), artifact)
    pool = new_racing_pool(new_forms(run=lambda *_: []), memory_max_bytes=140 * MIB)
    x = [[[[1.0]]] * 2048]
    await ask(pool, layers, X, tenant="another")
    answered = await ask(pool, artifact, x)
    assert (TENANT, artifact.digest, 1) not in pool.runners  # it was seen to have outgrown the pool

    assert await ask(pool, artifact, x) == [pytest.approx(answered[0], rel=1e-5)]

    assert form_of(pool, artifact) is None
    assert ("another", layers.digest, 1) in pool.runners


async def test_a_graph_with_a_branch_has_one_form(new_forms: NewForms, trace, blobs: Blobs) -> None:
    found = await race(new_forms(), trace(blobs, Branches(), torch.ones(2)))

    assert found.answers is None
    assert all(why is not None and "prim::If" in why for why in reasons(found).values())


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return either(x)


@torch.jit.script
def either(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if bool(x.sum() > 100) else x


async def test_rows_that_are_answered_together_are_compared_with_each_alone(
    new_forms: NewForms, trace, blobs: Blobs
) -> None:
    """Its certificate is forged: no form that answers rows together answers as the form as saved does alone."""
    artifact = trace(blobs, Centres(), torch.randn(2, 4))
    rows = Region(spans={"batch": [Span(low=1, high=8)]}, basis="proven")
    batch = Batch(symbol="batch", up_to=8, inputs={"x": 0}, outputs={"output": 0})
    method = artifact.contract.methods["forward"].with_claim(
        MethodClaim(shapes={"x": ("batch", 4)}, regions=[rows], batch=batch)
    )

    found = await race(new_forms(), artifact.model_copy(update={"contract": Contract(methods={"forward": method})}))

    assert found.answers is None
    assert all(why is not None and "rows together" in why for why in reasons(found).values())


async def test_what_raises_at_its_largest_size_is_timed_at_the_others(new_forms: NewForms, trace, blobs: Blobs) -> None:
    """As a model with a table of positions does, which is shorter than what the contract takes."""
    artifact = trace(blobs, Places(), torch.randn(2, 4))
    rows = Region(spans={"batch": [Span(low=1, high=16)]}, basis="proven")
    method = artifact.contract.methods["forward"].with_claim(
        MethodClaim(shapes={"x": ("batch", 4)}, regions=[rows], batch=None)
    )

    found = await race(new_forms(), artifact.model_copy(update={"contract": Contract(methods={"forward": method})}))

    assert reasons(found) == dict.fromkeys(RacedForm)
    assert found.answers is RacedForm.FREEZE


class Places(torch.nn.Module):
    """Raises with more rows than its table has."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x + self.table[: x.shape[0]])


class Centres(torch.nn.Module):
    """Its rows depend on one another."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0)


async def test_a_form_that_does_not_replay_the_golden_cases_is_taken_back(
    new_forms: NewForms, new_racing_pool, overflows: Artifact, layers: Artifact
) -> None:
    won = (await race(new_forms(), layers)).trials
    forms = new_forms(run=lambda *_: won)  # as if it had passed
    pool = new_racing_pool(forms)
    x = [[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]]
    before = await ask(pool, overflows, x)

    await until(lambda: (found := forms.find(overflows.digest, 1)) is not None and found.answers is None)

    assert await ask(pool, overflows, x) == before
    assert form_of(pool, overflows) is None


async def test_a_form_that_does_not_start_is_answered_as_saved(
    new_forms: NewForms, new_racing_pool, overflows: Artifact, layers: Artifact
) -> None:
    won = (await race(new_forms(), layers)).trials
    assert (await race(new_forms(run=lambda *_: won), overflows)).answers is RacedForm.FREEZE
    forms = new_forms(run=never)
    pool = new_racing_pool(forms)

    assert await ask(pool, overflows, [[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]])

    assert form_of(pool, overflows) is None
    await until(lambda: (found := forms.find(overflows.digest, 1)) is not None and found.answers is None)
    found = new_forms().find(overflows.digest, 1)
    assert found is not None
    assert "it did not start" in found.why


async def test_where_a_form_raises_the_form_as_saved_is_asked_and_answers_from_then_on(
    new_forms: NewForms, new_racing_pool, picks: Artifact
) -> None:
    await race(new_forms(), picks)
    forms = new_forms(run=never)
    pool = new_racing_pool(forms)
    await ask(pool, picks, [1, 2])
    assert form_of(pool, picks) is RacedForm.FREEZE

    with pytest.raises(GraphRaised):
        await ask(pool, picks, [1, 9])

    assert form_of(pool, picks) is None
    assert await ask(pool, picks, [0, 0]) == [[0.0, 0.0]]
    await until(lambda: (found := forms.find(picks.digest, 1)) is not None and "it raised" in found.why)


async def test_a_form_whose_process_is_lost_is_taken_back_and_the_call_is_answered(
    new_forms: NewForms, new_racing_pool, layers: Artifact
) -> None:
    await race(new_forms(), layers)
    forms = new_forms(run=never)
    pool = new_racing_pool(forms)
    before = await ask(pool, layers, X)
    pid = pool.runners[TENANT, layers.digest, 1].pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)

    asked = asyncio.create_task(ask(pool, layers, X))
    await until(lambda: pool.runners[TENANT, layers.digest, 1].state == "busy")
    os.kill(pid, signal.SIGKILL)

    assert await asked == [pytest.approx(before[0], rel=1e-5)]
    assert form_of(pool, layers) is None
    await until(lambda: (found := forms.find(layers.digest, 1)) is not None and "was lost" in found.why)


async def ask_two(pool: Pool, artifact: Artifact, *args: Any, as_saved: bool = False) -> list[Any]:
    """Ask a model that two runners answer."""
    outputs = await pool.infer(
        TENANT, artifact, artifact.digest, "forward", inputs(artifact, *args), seed=None, as_saved=as_saved, replicas=2
    )
    return [unpack(one.datatype, one.data) for one in outputs]


async def have_form(pool: Pool, artifact: Artifact, form: RacedForm | None) -> None:
    """Return when both runners are ready in this form."""
    ready = [(form, RunnerState.READY)] * 2
    key = TENANT, artifact.digest, 1
    await until(lambda: [(one.raced_form, one.state) for one in pool.replicas_of(key)] == ready)


async def test_a_form_that_wins_takes_both_places_of_a_model_that_two_runners_answer(
    new_forms: NewForms, new_racing_pool, layers: Artifact
) -> None:
    pool = new_racing_pool(new_forms())
    before = await ask_two(pool, layers, X)
    await have_form(pool, layers, None)

    assert await ask_two(pool, layers, X) == before  # it is raced after an answer that finds both there

    await have_form(pool, layers, RacedForm.FREEZE)
    assert await ask_two(pool, layers, X) == [pytest.approx(before[0], rel=1e-5)]


@pytest.mark.parametrize("why", ["it gives way", "it is lost"])
async def test_a_form_that_does_not_start_in_one_place_is_not_tried_in_the_next(
    why: str, new_forms: NewForms, new_racing_pool, layers: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it gave way to still needs the memory, and what was lost is taken back."""
    pool, start, tried = new_racing_pool(new_forms()), Runner.start, list[Runner]()

    async def start_as_saved(runner: Runner, *args: Any) -> None:
        if runner.raced_form is None:
            await start(runner, *args)
            return
        tried.append(runner)
        await (runner.evict() if why == "it gives way" else runner.close())
        raise RunnerLost("it did not start")

    monkeypatch.setattr(Runner, "start", start_as_saved)
    await ask_two(pool, layers, X)
    await have_form(pool, layers, None)
    await ask_two(pool, layers, X)
    await until(lambda: bool(tried))
    await asyncio.gather(*pool._tasks)

    assert len(tried) == 1
    await have_form(pool, layers, None)


async def test_a_form_that_does_not_start_in_the_second_place_is_taken_back_from_the_first(
    new_forms: NewForms, new_racing_pool, layers: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, start, tried = new_racing_pool(new_forms()), Runner.start, list[Runner]()

    async def start_once(runner: Runner, *args: Any) -> None:
        if runner.raced_form is not None:
            tried.append(runner)
        if tried[1:] == [runner]:
            await runner.close()
            raise RunnerLost("it did not start")
        await start(runner, *args)

    monkeypatch.setattr(Runner, "start", start_once)
    before = await ask_two(pool, layers, X)
    await have_form(pool, layers, None)
    await ask_two(pool, layers, X)
    await until(lambda: len(tried) == 2)
    await asyncio.gather(*pool._tasks)

    assert await ask_two(pool, layers, X) == before
    assert all(one.raced_form is None for one in pool.replicas_of((TENANT, layers.digest, 1)))
    await have_form(pool, layers, None)


async def test_a_form_that_raises_in_one_runner_is_taken_back_from_both(
    new_forms: NewForms, new_racing_pool, picks: Artifact
) -> None:
    await race(new_forms(), picks)
    pool = new_racing_pool(new_forms(run=never))
    await ask_two(pool, picks, [1, 2])
    await have_form(pool, picks, RacedForm.FREEZE)

    with pytest.raises(GraphRaised):
        await ask_two(pool, picks, [1, 9])

    assert await ask_two(pool, picks, [0, 0]) == [[0.0, 0.0]]
    await have_form(pool, picks, None)


async def test_who_wants_the_form_as_saved_gets_it_from_both_runners(
    new_forms: NewForms, new_racing_pool, layers: Artifact
) -> None:
    await race(new_forms(), layers)
    pool = new_racing_pool(new_forms(run=never))
    await ask_two(pool, layers, X)
    await have_form(pool, layers, RacedForm.FREEZE)

    await ask_two(pool, layers, X, as_saved=True)

    assert all(one.raced_form is None for one in pool.replicas_of((TENANT, layers.digest, 1)))
    await ask_two(pool, layers, X, as_saved=True)
    await have_form(pool, layers, None)


async def test_answers_do_not_wait_for_a_race_and_a_race_gives_way_to_a_start(
    new_forms: NewForms, new_racing_pool, layers: Artifact, picks: Artifact
) -> None:
    seen: list[Cancellation] = []

    def run(_: Artifact, threads: int, cancellation: Cancellation) -> None:
        seen.append(cancellation)
        ended = threading.Event()
        with cancellation.calls(ended.set):
            ended.wait(PATIENCE_S)

    pool = new_racing_pool(new_forms(run=run))
    await ask(pool, layers, X)
    await until(lambda: bool(seen))
    await ask(pool, layers, X)
    assert seen[0].reason is None

    await ask(pool, picks, [0, 1])

    assert seen[0].reason == "giving way"
    assert form_of(pool, layers) is None


async def test_a_race_needs_room_in_the_pool(new_forms: NewForms, new_racing_pool, layers: Artifact) -> None:
    pool = new_racing_pool(new_forms(run=never), memory_max_bytes=100 * MIB)

    for _ in range(3):
        assert await ask(pool, layers, X)

    assert form_of(pool, layers) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"device": "cuda"}, "cuda"),
        ({"freeze": True}, "its request chose"),
        ({"form": "uploaded"}, "traced"),
        ({"form": "mixed"}, "traced"),
        ({"training": True}, "eval mode"),
        ({"precision": "bfloat16"}, "few digits"),
    ],
)
def test_what_has_no_other_form_than_as_saved(layers: Artifact, changes: dict[str, object], why: str) -> None:
    assert why_saved(layers) is None
    assert why in (why_saved(layers.model_copy(update=changes)) or "")


def test_a_contract_with_more_regions_than_are_called_is_answered_as_saved(layers: Artifact) -> None:
    regions = [Region(spans={"batch": [Span(low=one, high=one)]}, basis="proven") for one in (3, 1, 5, 7, 9)]
    method = layers.contract.methods["forward"]

    def why(count: int) -> str | None:
        claim = MethodClaim(shapes={"x": ("batch", 4)}, regions=regions[:count])
        return why_saved(
            layers.model_copy(update={"contract": Contract(methods={"forward": method.with_claim(claim)})})
        )

    assert why(4) is None
    assert "5 regions" in (why(5) or "")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"verdict": Verdict.REJECTED}, "rejected"),
        ({"verdict": Verdict.SELF_CONSISTENT}, "self-consistent"),
        ({"tolerance": 0.0}, "bit by bit"),
    ],
)
def test_what_must_be_exact_or_is_not_known_to_be_right_is_answered_as_saved(
    layers: Artifact, changes: dict[str, object], why: str
) -> None:
    check = layers.check.model_copy(update=changes)

    assert why in (why_saved(layers.model_copy(update={"check": check})) or "")


async def test_what_has_no_other_form_is_not_raced_and_the_reason_is_kept(
    new_forms: NewForms, layers: Artifact
) -> None:
    exact = layers.model_copy(update={"check": layers.check.model_copy(update={"tolerance": 0.0})})

    found = await race(new_forms(run=never), exact)

    assert (found.answers, found.trials) == (None, [])
    assert "bit by bit" in found.why
