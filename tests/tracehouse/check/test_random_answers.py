"""Models that draw random numbers: an artifact is right if it draws the same numbers in the same order."""

import random

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import tracehouse
from tracehouse.check.report import Report
from tracehouse.findings.verdict import Verdict

X = (torch.linspace(-1, 1, 18).reshape(3, 6),)
BUDGET_S = 120.0


def samples_its_latent(x):
    mean, spread = x.chunk(2, -1)
    return mean + torch.randn_like(mean) * spread.exp()


def drops_on_purpose(x):
    return F.dropout(x, 0.5, training=True)


def draws_gates_for_each_row(x):
    return x * torch.empty(x.shape[0], 1).bernoulli_(0.8)


def picks_by_gumbel(x):
    return F.gumbel_softmax(x, tau=0.5, hard=True)


def draws_a_number_to_print(x):
    print(torch.randint(0, 3, ()).item())
    return x * 2


def skips_now_and_then(x):
    return x if torch.rand(()).item() < 1e-4 else x * 2


def repeats_by_a_draw(x):
    for _ in range(int(torch.randint(1, 4, ()))):
        x = x * 2
    return x


def seeds_torch(x):
    torch.manual_seed(0)
    return x + torch.randn_like(x)


def seeds_torch_by_a_value(x):
    if bool((x > 1e6).any()):
        torch.manual_seed(0)
    return x + torch.randn_like(x)


def draws_for_nothing_by_a_value(x):
    if bool((x > 1e6).any()):
        torch.rand(1)
    return x + torch.randn_like(x)


def draws_for_nothing(x):
    torch.rand(1)
    return x + torch.randn_like(x)


def draws_from_its_own_generator(x):
    return x + torch.rand(6, generator=torch.Generator().manual_seed(0))


def draws_in_python(x):
    return x * random.random()


def draws_in_numpy(x):
    return x + torch.tensor(np.random.rand(), dtype=torch.float32)


def seeds_torch_at_one_size(x):
    if x.shape[0] == 117:
        torch.manual_seed(0)
    return x + torch.randn_like(x)


def forks_the_generator_at_one_size(x):
    if x.shape[0] == 117:
        with torch.random.fork_rng():
            x = x + torch.rand_like(x)
    else:
        x = x + torch.rand_like(x)
    return x + torch.randn_like(x)


def draws_for_nothing_at_one_size(x):
    if x.shape[0] == 117:
        torch.rand(1)
    return x + torch.randn_like(x)


def draws_as_many_as_the_example_has(x):
    return x + torch.randn([int(size) for size in x.shape])


def check(function) -> Report:
    return tracehouse.check(function, X, budget_s=BUDGET_S)


@pytest.mark.parametrize(
    "function",
    [samples_its_latent, drops_on_purpose, draws_gates_for_each_row, picks_by_gumbel],
    ids=lambda f: f.__name__,
)
def test_what_draws_the_same_is_verified_and_stochastic_and_proven(function) -> None:
    report = check(function)

    method = report.contract.method("forward")
    finding = next(one for one in report.findings if one.kind == "stochastic")
    assert report.verdict is Verdict.VERIFIED
    assert (method.stochastic, method.batch) == (True, None)
    assert "proven" in {region.basis for region in method.regions}
    assert finding.source
    assert "with random answers" in repr(report)


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_the_artifact_gives_what_eager_gives_under_the_same_seed(seed: int) -> None:
    artifact = check(drops_on_purpose).artifact

    torch.manual_seed(seed)
    eager = drops_on_purpose(*X)
    torch.manual_seed(seed)
    assert torch.equal(artifact(*X), eager)


@pytest.mark.parametrize(
    "function",
    [
        skips_now_and_then,
        repeats_by_a_draw,
        seeds_torch,
        seeds_torch_by_a_value,
        draws_for_nothing_by_a_value,
        draws_for_nothing,
        draws_from_its_own_generator,
        draws_in_python,
        draws_in_numpy,
    ],
    ids=lambda f: f.__name__,
)
def test_what_draws_otherwise_is_rejected(function) -> None:
    assert check(function).verdict is Verdict.REJECTED


@pytest.mark.parametrize("function", [draws_in_python, draws_in_numpy], ids=lambda f: f.__name__)
def test_numbers_that_python_draws_are_said_to_be_kept(function) -> None:
    finding = next(one for one in check(function).findings if one.kind == "nondeterministic")

    assert finding.source is not None
    assert "random" in finding.source


@pytest.mark.parametrize(
    "function",
    [seeds_torch_at_one_size, forks_the_generator_at_one_size, draws_for_nothing_at_one_size],
    ids=lambda f: f.__name__,
)
def test_a_size_at_which_other_numbers_are_drawn_is_refused(function) -> None:
    method = check(function).contract.method("forward")
    batch = next(iter(method.symbols - {str(method.inputs[0].shape[1])}))

    sizes = method.example_sizes
    assert sizes is not None
    assert not any(region.contains({**sizes, batch: 117}) for region in method.regions)
    assert any(region.contains({**sizes, batch: 118}) for region in method.regions)


def test_draws_of_a_size_that_the_trace_keeps_restrict_the_contract() -> None:
    report = check(draws_as_many_as_the_example_has)

    assert report.verdict is Verdict.RESTRICTED
    assert report.contract.method("forward").inputs[0].shape == (3, 6)


def test_a_draw_that_is_printed_alone_changes_no_answer() -> None:
    report = check(draws_a_number_to_print)

    assert report.verdict is Verdict.VERIFIED
    assert not report.contract.method("forward").stochastic
    assert "draws-random-numbers" in [one.kind for one in report.findings]


def test_the_callers_generator_is_as_it_was() -> None:
    before = torch.get_rng_state()

    check(drops_on_purpose)

    assert torch.equal(torch.get_rng_state(), before)
