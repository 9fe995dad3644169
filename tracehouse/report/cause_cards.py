"""Cards: each cause once, with its line, what to write instead, and all that was seen of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson

from tracehouse.artifact.counterexample_files import arrays_file, test_file
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import entry_of, path_of
from tracehouse.report.causes import WEIGHTS, causes_of, harmless
from tracehouse.report.markup import Html, code, details, element, facts, join, prose, text
from tracehouse.report.rounding import round_numbers

_TITLES = {"harmful": "Harmful", "unknown": "Of unknown effect", "other": "Other findings"}
_CONFIRMED = {True: "yes: inputs were found that show it", False: "no input was found that shows it"}


@dataclass(frozen=True, slots=True)
class Card:
    """A cause with its number on the page. `seen` is what else was found out about it; torch's warnings come last."""

    number: int
    weight: str
    lead: Finding
    seen: tuple[Finding, ...] = ()
    remedy: str | None = None
    counterexample: int | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.lead, *self.seen


def cards_of(findings: Sequence[Finding]) -> list[Card]:
    """Return a card for each cause, the worst first, and one for each finding that is proved harmless."""
    causes = sorted(causes_of(findings), key=lambda one: WEIGHTS.index(one.weight))
    kept = [finding for cause in causes for finding in cause.findings]
    proved = harmless(findings)
    # Warnings of torch about a line that another finding explains: no cause has them.
    warned = [one for one in findings if one not in kept and one not in proved]
    cards: list[Card] = []
    for cause in causes:
        lead = cause.lead
        warnings = [one for one in warned if (one.file, one.line) == (lead.file, lead.line)]
        seen = (*cause.others, *warnings)
        cards.append(Card(len(cards) + 1, cause.weight, lead, seen, cause.remedy, cause.counterexample))
    for one in proved:
        cards.append(Card(len(cards) + 1, "harmless", one, (), one.remedy, one.counterexample))
    return cards


def render_cards(cards: Sequence[Card], digest: str | None) -> Iterator[Html]:
    """Yield the cards by what their causes do. `digest` is the artifact's, if a service has it and its files."""
    if not cards:
        yield element("p", "Nothing was found.")
        return
    for weight, title in _TITLES.items():
        members = [card for card in cards if card.weight == weight]
        if members:
            yield element("h3", f"{title}: {len(members)}")
            yield from (_render(card, digest) for card in members)
    proved = [_render(card, digest) for card in cards if card.weight == "harmless"]
    if proved:
        yield details(f"Harmless: {len(proved)}, and why each of them is", *proved)


def _render(card: Card, digest: str | None) -> Html:
    lead = card.lead
    where = f"{lead.file}:{lead.line}" if lead.file and lead.line else lead.file or ""
    entry = entry_of(lead.kind)
    inside = [
        element("h4", f"{card.number}. ", _kind(lead.kind, digest), *([" at ", code(where)] if where else [])),
        element("p", entry.title, class_="meaning") if entry else "",
        element("pre", lead.source, class_="line") if lead.source else "",
        element("p", _said(lead.detail)),
        element("p", element("strong", "To mend it"), " ", prose(card.remedy), class_="remedy") if card.remedy else "",
        facts(_about(card, digest)),
        *_seen(card, digest),
        *_evidence(card),
    ]
    return Html(f'<article class="finding {card.weight}" id="finding-{card.number}">{join(inside)}</article>')


def _about(card: Card, digest: str | None) -> Iterator[tuple[str, object]]:
    lead = card.lead
    if lead.reason and lead.reason not in lead.detail:
        yield "How that is known", _said(lead.reason)
    confirmed = {one.confirmed for one in card.findings} - {None}
    if confirmed:
        yield "Confirmed", _CONFIRMED[True in confirmed]
    if card.counterexample is not None:
        yield "Counterexample", counterexample_files(card.counterexample, digest)


def counterexample_files(number: int, digest: str | None) -> Html:
    """Return links to the files of a counterexample; without a service, the number under which the page has it."""
    if digest is None:
        return element("a", f"number {number}", href="#counterexamples")
    path = f"/artifacts/{digest}/counterexamples/{number}"
    return join(
        [element("a", arrays_file(number), href=f"{path}.npz"), element("a", test_file(number), href=f"{path}.py")],
        " and ",
    )


def _seen(card: Card, digest: str | None) -> Iterator[Html]:
    if card.seen:
        rows = (element("li", _kind(one.kind, digest), ": ", _said(one.detail)) for one in card.seen)
        yield element("p", element("strong", "Also seen of this cause"))
        yield element("ul", *rows)


def _evidence(card: Card) -> Iterator[Html]:
    """Yield what shows the cause, folded: whoever doubts it opens it."""
    having = [one for one in card.findings if one.evidence]
    if having:
        shown = (
            join([element("p", code(one.kind)) if len(card.findings) > 1 else "", facts(_lines(one.evidence))])
            for one in having
        )
        yield details("Evidence", *shown)


def _lines(evidence: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    return ((name.replace("_", " "), code(_value(value))) for name, value in evidence.items())


def _value(value: object) -> str:
    """Return a value in words: parts of one that is nested are separated by commas."""
    match value:
        case str():
            return value
        case dict():
            return ", ".join(f"{key} {_value(one)}" for key, one in value.items()) or "none"
        case list() if any(isinstance(one, dict | list) for one in value):
            return "; ".join(map(_value, value))
    return round_numbers(orjson.dumps(value).decode())


def _kind(kind: str, digest: str | None) -> Html:
    """Return the kind as a link to its entry in the catalogue, or as plain text if it has none."""
    return element("a", kind, href=path_of(kind)) if digest is not None and entry_of(kind) else text(kind)


def _said(sentence: str) -> Html:
    return prose(round_numbers(sentence))
