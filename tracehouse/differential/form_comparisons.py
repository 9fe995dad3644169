"""Form comparisons: each form of an artifact compared with the eager model."""

from dataclasses import dataclass

from tracehouse.differential.comparison import ComparisonResult, Difference


@dataclass(frozen=True)
class FormComparisons:
    """The form that is served, compared with the eager model; and where they differ in form, the archive as traced."""

    served: ComparisonResult
    as_traced: ComparisonResult | None = None

    @property
    def agrees(self) -> bool:
        """Whether every form agrees with the eager model."""
        return self.served.agrees and (self.as_traced is None or self.as_traced.agrees)

    @property
    def difference(self) -> Difference | None:
        """The served form's difference, or else the traced one's."""
        return self.served.difference or (self.as_traced.difference if self.as_traced is not None else None)
