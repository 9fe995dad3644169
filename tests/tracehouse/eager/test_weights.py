"""Weights: every value that the model lacks is found and said, with what would bring it."""

import io
from collections.abc import Callable
from typing import Any

import pytest
import safetensors.torch
import torch

from tracehouse.eager import weights
from tracehouse.eager.model import LoadedModel
from tracehouse.errors import WeightsMismatch, WeightsUnreadable
from tracehouse.spec.trace_spec import Weights

Load = Callable[..., LoadedModel]
LINEAR = {"layer.weight": torch.ones(3, 4), "layer.bias": torch.zeros(3)}
PARALLEL = {f"module.{name}": value for name, value in LINEAR.items()}
NOT_STRICT = {"strict": False, "refuse_missing": False}


def fit(module: torch.nn.Module, content: Any, *, refuse_missing: bool = True, **wanted: Any) -> weights.Fit:
    """Save the content as a training script does, and load it."""
    file = io.BytesIO()
    torch.save(content, file)
    file.seek(0)
    return weights.load(module, file, Weights(file="w.pt", **wanted), refuse_missing=refuse_missing)


def kinds(fitted: weights.Fit) -> list[str]:
    return [finding.kind for finding in fitted.findings]


def test_weights_are_loaded_and_nothing_is_said(load: Load) -> None:
    module = load("linear").module

    assert fit(module, LINEAR) == weights.Fit()
    assert module(torch.ones(1, 4)).tolist() == [[4.0, 4.0, 4.0]]


def test_a_safetensors_file_is_loaded(load: Load) -> None:
    file = io.BytesIO(safetensors.torch.save(PARALLEL))
    wanted = Weights(file="w.safetensors", rename={"module.": ""})

    assert weights.load(load("linear").module, file, wanted, refuse_missing=True) == weights.Fit()


def test_names_that_do_not_fit_are_refused_and_listed(load: Load) -> None:
    with pytest.raises(WeightsMismatch) as raised:
        fit(load("linear").module, {"layer.bias": torch.ones(3), "other": torch.ones(1)})
    assert (raised.value.facts["missing"], raised.value.facts["unexpected"]) == (["layer.weight"], ["other"])


def test_what_the_model_does_not_have_is_refused_and_may_be_left_out(load: Load) -> None:
    given = {**LINEAR, "criterion.weight": torch.ones(2)}
    with pytest.raises(WeightsMismatch) as raised:
        fit(load("linear").module, given)
    assert "weights.strict to false" in raised.value.facts["remedy"]

    fitted = fit(load("linear").module, given, strict=False)
    assert (kinds(fitted), fitted.unexpected) == (["weights-unexpected"], ["criterion.weight"])


def test_a_missing_weight_speaks_against_the_trace_where_not_strict(load: Load) -> None:
    fitted = fit(load("linear").module, {"layer.bias": torch.ones(3)}, **NOT_STRICT)

    assert (kinds(fitted), fitted.missing) == (["weights-missing"], ["layer.weight"])
    assert fitted.findings[0].evidence == {"missing": ["layer.weight"], "number": 1}


def test_a_missing_weight_is_refused_where_no_verdict_could_say_it(load: Load) -> None:
    with pytest.raises(WeightsMismatch):
        fit(load("linear").module, {"layer.bias": torch.ones(3)}, strict=False, refuse_missing=True)


@pytest.mark.parametrize("strict", [True, False])
def test_the_remedy_for_a_prefix_gives_every_weight_its_value(load: Load, strict: bool) -> None:
    if strict:
        with pytest.raises(WeightsMismatch) as raised:
            fit(load("linear").module, PARALLEL)
        remedy = raised.value.facts["remedy"]
    else:
        remedy = str(fit(load("linear").module, PARALLEL, **NOT_STRICT).findings[0].remedy)

    assert remedy == 'set weights.rename to {"module.": ""}: then every parameter and buffer gets a value'
    module = load("linear").module
    assert fit(module, PARALLEL, rename={"module.": ""}) == weights.Fit()
    assert torch.equal(module.layer.weight, torch.ones(3, 4))


def test_the_remedy_for_a_lightning_file_leaves_out_what_is_not_the_models(load: Load) -> None:
    state = {**{f"model.{name}": value for name, value in LINEAR.items()}, "criterion.weight": torch.ones(2)}
    file = {"state_dict": state, "epoch": 3, "hyper_parameters": {"lr": 0.1}}
    with pytest.raises(WeightsMismatch) as raised:
        fit(load("linear").module, file)

    options = 'weights.rename to {"model.": ""} and weights.strict to false'
    assert raised.value.facts["remedy"].startswith(f"set {options}:")
    fitted = fit(load("linear").module, file, rename={"model.": ""}, strict=False)
    assert (fitted.missing, kinds(fitted)) == ([], ["weights-key-chosen", "weights-unexpected"])


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model", "net", "params", "ema"])
def test_the_only_state_dict_under_a_usual_name_is_taken_and_a_finding_says_so(load: Load, key: str) -> None:
    module = load("linear").module
    fitted = fit(module, {key: LINEAR, "epoch": 7, "optimizer": {"lr": 0.1}})

    assert torch.equal(module.layer.weight, torch.ones(3, 4))
    assert kinds(fitted) == ["weights-key-chosen"]
    assert fitted.findings[0].evidence == {"key": key, "beside": ["epoch", "optimizer"]}


def test_of_several_state_dicts_the_request_chooses_one(load: Load) -> None:
    averaged = {name: value + 1 for name, value in LINEAR.items()}
    file = {"params": LINEAR, "params_ema": averaged}
    with pytest.raises(WeightsUnreadable) as raised:
        fit(load("linear").module, file)

    assert raised.value.facts["found"] == ["params", "params_ema"]
    assert raised.value.facts["remedy"] == (
        'set weights.key to "params" or weights.key to "params_ema", whichever is meant'
    )
    module = load("linear").module
    assert fit(module, file, key="params_ema") == weights.Fit()
    assert torch.equal(module.layer.weight, torch.full((3, 4), 2.0))


def test_of_several_state_dicts_the_one_that_fits_is_offered(load: Load) -> None:
    with pytest.raises(WeightsUnreadable) as raised:
        fit(load("linear").module, {"generator": LINEAR, "discriminator": {"judge.weight": torch.ones(1)}})
    assert raised.value.facts["remedy"] == 'set weights.key to "generator"'


@pytest.mark.parametrize("content", [{"ema": LINEAR}, LINEAR])
def test_a_key_that_is_not_in_the_file_is_refused(load: Load, content: Any) -> None:
    with pytest.raises(WeightsUnreadable) as raised:
        fit(load("linear").module, content, key="params")
    assert "weights.key" in raised.value.facts["remedy"]


class Indexed(torch.nn.Module):
    """A layer, and a buffer that the constructor computes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.register_buffer("position_index", torch.arange(4))
        self.register_buffer("mask", torch.ones(4), persistent=False)
        self.register_buffer("nothing", torch.ones(0))


def test_a_missing_buffer_is_named_with_the_option_that_allows_it() -> None:
    with pytest.raises(WeightsMismatch) as raised:
        fit(Indexed(), LINEAR)
    assert raised.value.facts["missing"] == ["position_index"]
    assert raised.value.facts["remedy"].endswith('set weights.allow_missing to ["position_index"]')


def test_what_is_allowed_to_be_missing_is_said_and_not_refused() -> None:
    fitted = fit(Indexed(), LINEAR, allow_missing=["*_index"])

    assert (kinds(fitted), fitted.missing) == (["weights-missing-allowed"], ["position_index"])


def test_what_is_not_allowed_is_refused_beside_what_is() -> None:
    with pytest.raises(WeightsMismatch) as raised:
        fit(Indexed(), {"layer.bias": torch.ones(3)}, allow_missing=["*_index"])
    assert raised.value.facts["missing"] == ["layer.weight"]


def test_a_pattern_and_a_prefix_that_fit_nothing_are_said(load: Load) -> None:
    fitted = fit(load("linear").module, LINEAR, allow_missing=["*.bais"], rename={"modul.": ""})

    assert kinds(fitted) == ["option-without-effect", "option-without-effect"]
    assert [finding.evidence["option"] for finding in fitted.findings] == ["weights.allow_missing", "weights.rename"]


def test_one_name_of_tied_parameters_is_enough(load: Load) -> None:
    module = load("ties_its_weights").module
    state = {name: value.clone() for name, value in module.state_dict().items() if name != "out.weight"}

    assert fit(module, state).missing == []


def test_a_view_beside_one_that_gets_its_values_is_missing() -> None:
    """Views have one version counter: a value for one of them counts as a write to all."""
    module, table = torch.nn.Module(), torch.zeros(2, 3)
    module.register_buffer("cos", table[0])
    module.register_buffer("sin", table[1])

    fitted = fit(module, {"cos": torch.ones(3)}, **NOT_STRICT)

    assert (kinds(fitted), fitted.missing) == (["weights-missing"], ["sin"])


def test_what_torch_fills_in_itself_is_not_missing() -> None:
    norm = torch.nn.BatchNorm1d(2)
    state = {name: value for name, value in norm.state_dict().items() if name != "num_batches_tracked"}

    assert fit(norm, state) == weights.Fit()


def test_a_lazy_module_takes_its_weights_and_lacks_them(load: Load) -> None:
    assert fit(load("lazy").module, LINEAR) == weights.Fit()
    assert fit(load("lazy").module, {"layer.bias": torch.ones(3)}, **NOT_STRICT).missing == ["layer.weight"]


def test_a_model_that_hides_what_is_missing_is_found_out() -> None:
    module = Indexed()
    module.register_load_state_dict_post_hook(lambda _, keys: keys.missing_keys.clear())

    fitted = fit(module, {"layer.bias": torch.ones(3)}, **NOT_STRICT)
    assert {*fitted.missing} == {"layer.weight", "position_index"}


class Renames(torch.nn.Linear):
    """A layer that reads the names of an older release."""

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        state[f"{prefix}weight"] = state.pop(f"{prefix}kernel")
        super()._load_from_state_dict(state, prefix, *others)


def test_what_the_model_takes_out_of_the_weights_is_missing() -> None:
    class WithoutHead(torch.nn.Linear):
        def load_state_dict(self, state: Any, strict: bool = True, assign: bool = False) -> Any:
            return super().load_state_dict({"weight": state["weight"]}, strict, assign)

    fitted = fit(WithoutHead(2, 2), {"weight": torch.ones(2, 2), "bias": torch.ones(2)}, **NOT_STRICT)

    assert (kinds(fitted), fitted.missing) == (["weights-missing"], ["bias"])


def test_names_that_the_model_itself_translates_are_not_missing() -> None:
    assert fit(Renames(4, 3), {"kernel": torch.ones(3, 4), "bias": torch.ones(3)}) == weights.Fit()


def test_the_older_names_of_weight_norm_arrive() -> None:
    module = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3))
    state = {"weight_g": torch.ones(3, 1), "weight_v": torch.ones(3, 4), "bias": torch.zeros(3)}

    assert fit(module, state) == weights.Fit()
    assert torch.allclose(module.weight, torch.full((3, 4), 0.5))


def test_another_shape_is_a_mismatch_even_where_not_strict(load: Load) -> None:
    with pytest.raises(WeightsMismatch) as raised:
        fit(load("linear").module, {"layer.bias": torch.ones(5)}, **NOT_STRICT)
    assert raised.value.facts["mismatched"] == [{"name": "layer.bias", "expected": [3], "actual": [5]}]


def test_that_no_weights_were_sent_is_said_unless_there_is_no_place_for_any(load: Load) -> None:
    assert kinds(weights.none_sent(load("linear").module, 7)) == ["weights-not-sent"]
    assert "seed 7" in weights.none_sent(load("linear").module, 7).findings[0].detail
    assert weights.none_sent(load("branches_on_data").module, 7) == weights.Fit()
