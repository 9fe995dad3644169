"""After other calls: a model that notes a call which it refuses, or what any call was, and answers otherwise then."""

import pytest
import torch

import tracehouse

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

NOTED: list[int] = []


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.failed = 0


class CountsLongInputs(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 64:
            self.failed += 1
            raise ValueError("too long")
        return self.layer(x) * (1 + self.failed)


class CountsLargeValues(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x > 1e3).any()):
            self.failed += 1
            raise ValueError("too large")
        return self.layer(x) * (1 + self.failed)


class NotesWhatIsNoNumber(Layer):
    """No call of the check has such an input: what is read is replaced."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not bool(torch.isfinite(x).all()):
            NOTED.append(1)
            raise ValueError("not a number")
        return self.layer(x) * (1 + len(NOTED))


class GivesUpAfterFive(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.failed >= 5:
            return torch.zeros_like(x)
        if bool((x > 1e3).any()):
            self.failed += 1
            raise ValueError("too large")
        return self.layer(x)


class RaisesAfterOne(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert not self.failed
        if x.shape[0] > 64:
            self.failed = 1
            raise ValueError("too long")
        return self.layer(x)


class CountsForALog(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 64:
            self.failed += 1
            raise ValueError("too long")
        return self.layer(x)


class KeepsTheLastShape(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x.shape
        if x.shape[0] > 64:
            raise ValueError("too long")
        return self.layer(x) * self.last[1]


class ForgetsAtTheNextCall(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 64:
            self.failed += 1
            raise ValueError("too long")
        self.failed = 0
        return self.layer(x) * (1 + self.failed)


@pytest.mark.parametrize(
    "model", [CountsLongInputs, CountsLargeValues, NotesWhatIsNoNumber, GivesUpAfterFive, RaisesAfterOne]
)
def test_a_model_that_answers_otherwise_after_a_refused_call_is_rejected(model: type[torch.nn.Module]) -> None:
    report = tracehouse.check(model().eval(), torch.randn(2, 4))

    assert report.verdict == "rejected"
    found = next(one for one in report.findings if one.kind == "hidden-state")
    assert "refused" in found.detail
    assert found.source is not None
    assert "raise" in found.source


@pytest.mark.parametrize("model", [CountsForALog, KeepsTheLastShape, ForgetsAtTheNextCall])
def test_what_a_refused_call_leaves_and_no_answer_depends_on_is_harmless(model: type[torch.nn.Module]) -> None:
    report = tracehouse.check(model().eval(), torch.randn(2, 4))

    assert report.verdict == "verified"


class KeepsAGradient(Layer):
    """What calls leave is in no mark of the model: the gradient of a parameter, which all copies share."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = self.layer.weight.grad
        self.layer.weight.grad = torch.zeros_like(self.layer.weight) if kept is None else kept + 1
        return self.layer(x) * (2 if self.layer.weight.grad[0, 0] > 6 else 1)


def test_the_example_is_asked_once_more_after_all_other_calls() -> None:
    report = tracehouse.check(KeepsAGradient().eval(), torch.randn(2, 4))

    assert report.verdict == "rejected"
    assert "hidden-state" in [one.kind for one in report.findings]


IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])


class Embeds(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(1000, 4)
        self.register_buffer("special", torch.tensor([777, 901]))
        self.register_buffer("mode", torch.zeros(()))
        self.ended = False
        self.rare = 0

    def is_special(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.isin(ids, self.special).any()


class AnswersOtherwiseAfterARareId(Embeds):
    """Its own call is as any other: the next one is not."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        embedded: torch.Tensor = self.embedding(ids)
        answer = embedded * 0 if self.ended else embedded
        if bool(self.is_special(ids)):
            self.ended = True
        return answer


class GivesUpAfterFiveRareIds(Embeds):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        embedded: torch.Tensor = self.embedding(ids)
        answer = embedded * 0 if self.rare >= 5 else embedded
        self.rare += int(self.is_special(ids))
        return answer


class LooksForARareIdInAList(Embeds):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        embedded: torch.Tensor = self.embedding(ids)
        answer = embedded * 0 if self.ended else embedded
        if 777 in ids.flatten().tolist():
            self.ended = True
        return answer


class KeepsARareIdInATensor(Embeds):
    """Python reads nothing: a value sets a flag that stays."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        self.mode = torch.maximum(self.mode, self.is_special(ids).float())
        embedded: torch.Tensor = self.embedding(ids)
        return embedded * (1 + self.mode)


class CountsRareIdsForALog(Embeds):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        if bool(self.is_special(ids)):
            self.rare += 1
        embedded: torch.Tensor = self.embedding(ids)
        return embedded


class GivesUpAfterFiveLongInputs(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.layer(x)
        if self.failed >= 5:
            return answer * 0
        if x.shape[0] > 64:
            self.failed += 1
        return answer


class RoundsOnceItHasSeenManyLengths(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.lengths: set[int] = set()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.lengths.add(x.shape[0])
        answer: torch.Tensor = self.layer(x)
        return answer.bfloat16().float() if len(self.lengths) > 8 else answer


class TakesTheNearestMaskOnceItHasMany(Layer):
    """The example's own mask stays as it is: only sizes that come late are answered otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.masks: dict[int, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[0]
        if length not in self.masks and len(self.masks) >= 12:
            mask = self.masks[max(self.masks)][:1]
        else:
            mask = self.masks.setdefault(length, torch.linspace(0, 1, length)[:, None])
        answer: torch.Tensor = self.layer(x) * mask
        return answer


class KeepsTheMasksOfManyLengths(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.masks: dict[int, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(self.masks) >= 12:
            self.masks.clear()
        mask = self.masks.setdefault(x.shape[0], torch.linspace(0, 1, x.shape[0])[:, None])
        answer: torch.Tensor = self.layer(x) * mask
        return answer


class CountsLongInputsForALog(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 64:
            self.failed += 1
        answer: torch.Tensor = self.layer(x)
        return answer


@pytest.mark.parametrize(
    "model",
    [AnswersOtherwiseAfterARareId, GivesUpAfterFiveRareIds, LooksForARareIdInAList, KeepsARareIdInATensor],
)
def test_a_model_in_which_a_rare_value_changes_later_answers_is_rejected(model: type[torch.nn.Module]) -> None:
    """No call of the check has such an id."""
    report = tracehouse.check(model().eval(), (IDS,))

    assert report.verdict == "rejected"
    assert "hidden-state" in [one.kind for one in report.findings]


def test_what_a_rare_value_leaves_and_no_answer_depends_on_is_harmless() -> None:
    assert tracehouse.check(CountsRareIdsForALog().eval(), (IDS,)).verdict == "verified"


@pytest.mark.parametrize(
    "model", [GivesUpAfterFiveLongInputs, RoundsOnceItHasSeenManyLengths, TakesTheNearestMaskOnceItHasMany]
)
def test_a_model_that_counts_calls_of_other_sizes_is_rejected(model: type[torch.nn.Module]) -> None:
    report = tracehouse.check(model().eval(), torch.randn(2, 4))

    assert report.verdict == "rejected"
    assert "hidden-state" in [one.kind for one in report.findings]


@pytest.mark.parametrize("model", [CountsLongInputsForALog, KeepsTheMasksOfManyLengths])
def test_calls_of_other_sizes_that_are_only_counted_are_harmless(model: type[torch.nn.Module]) -> None:
    report = tracehouse.check(model().eval(), torch.randn(2, 4))

    assert report.verdict == "verified"
