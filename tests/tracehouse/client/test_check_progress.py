"""What a person reads while a trace is checked."""

from typing import Any

from tracehouse.client.progress import EventText


def layer(name: str, budget_s: float | None, method: str = "forward") -> dict[str, Any]:
    return {"name": name, "method": method, "device": "cpu", "budget_s": budget_s}


def test_a_layer_is_told_in_plain_words_with_what_is_left_of_the_budget() -> None:
    texts = EventText(15)

    assert texts.describe("layer", layer("observe", 1.2)) == (
        "checked forward, 1 of 8, 14 s of 15 s left: what the model reads and writes beside its inputs and outputs"
    )
    assert texts.describe("layer", layer("sizes", 2.8)) == (
        "checked forward, 2 of 8, 11 s of 15 s left: which sizes may vary"
    )


def test_a_layer_that_runs_again_counts_once_and_methods_share_the_budget() -> None:
    texts = EventText(10)
    for _ in range(2):
        again = texts.describe("layer", layer("prove", 3))
    other = texts.describe("layer", layer("prove", 4, "encode"))

    assert again is not None
    assert again.startswith("checked forward, 1 of 8, 7 s of 10 s left: ")
    assert other is not None
    assert other.startswith("checked encode, 1 of 8, 3 s of 10 s left: ")


def test_another_device_or_conversion_begins_anew_and_no_more_than_all_is_spent() -> None:
    texts = EventText(10)
    texts.describe("layer", layer("prove", 12))
    assert ", 0 s of 10 s left" in str(texts.describe("layer", layer("flip", 1)))

    assert texts.describe("stage", {"stage": "tracing"}) == "tracing"
    assert "1 of 8, 9 s of 10 s left" in str(texts.describe("layer", layer("observe", 1)))


def test_where_it_is_not_known_nothing_is_said_to_be_left() -> None:
    for texts, budget_s in ((EventText(), 1.0), (EventText(10), None)):
        assert texts.describe("layer", layer("sizes", budget_s)) == "checked forward, 1 of 8: which sizes may vary"
