"""What a person reads while a trace is checked."""

from typing import Any

from tracehouse.client.progress import EventText


def layer(name: str, left_s: float | None, method: str = "forward") -> dict[str, Any]:
    return {"name": name, "method": method, "device": "cpu", "budget_left_s": left_s}


def test_a_layer_is_told_in_plain_words_with_what_is_left_of_the_budget() -> None:
    texts = EventText()

    assert texts.describe("layer", layer("observe", 13.8)) == (
        "checked forward, 1 of 8, at most 14 s of the budget left: "
        "what the model reads and writes beside its inputs and outputs"
    )
    assert texts.describe("layer", layer("sizes", 11.0)) == (
        "checked forward, 2 of 8, at most 11 s of the budget left: which sizes may vary"
    )


def test_a_layer_that_runs_again_counts_once_and_each_method_counts_its_own() -> None:
    texts = EventText()
    for _ in range(2):
        again = texts.describe("layer", layer("prove", 7))
    other = texts.describe("layer", layer("prove", 3, "encode"))

    assert again is not None
    assert again.startswith("checked forward, 1 of 8, ")
    assert other is not None
    assert other.startswith("checked encode, 1 of 8, ")


def test_another_device_or_conversion_begins_anew() -> None:
    texts = EventText()
    texts.describe("layer", layer("prove", 2))

    assert texts.describe("stage", {"stage": "tracing"}) == "tracing"
    assert "1 of 8, at most 9 s" in str(texts.describe("layer", layer("observe", 9)))


def test_of_a_service_that_does_not_say_what_is_left_nothing_is_said() -> None:
    assert EventText().describe("layer", layer("sizes", None)) == "checked forward, 1 of 8: which sizes may vary"
