"""Form comparisons: each form of an artifact compared with the eager model."""

from dataclasses import dataclass

from tracehouse.differential.comparison import ComparisonResult, Difference


@dataclass(frozen=True)
class FormComparisons:
    """The served form compared with the eager model, and the archive as it was traced if that is another form."""

    served: ComparisonResult
    as_traced: ComparisonResult | None = None

    @property
    def agrees(self) -> bool:
        """Whether every form agrees with the eager model."""
        return self.served.agrees and (self.as_traced is None or self.as_traced.agrees)

    @property
    def differs_by_rounding(self) -> bool:
        """Whether a form differs from the eager model, and each that does so differs by rounding alone."""
        differing = [one for one in (self.served, self.as_traced) if one is not None and not one.agrees]
        return bool(differing) and all(one.differs_by_rounding for one in differing)

    @property
    def difference(self) -> Difference | None:
        """The difference of the served form or, if it agrees, that of the archive as it was traced."""
        return self.served.difference or (self.as_traced.difference if self.as_traced is not None else None)
