"""Both forms of an artifact, each compared with the eager model."""

from dataclasses import dataclass

from tracehouse.differential.comparison import ComparisonResult, Difference


@dataclass(frozen=True)
class FormComparisons:
    """What was found of the artifact as it is served and, where that is another form, as it was traced."""

    served: ComparisonResult
    as_traced: ComparisonResult | None = None

    @property
    def agrees(self) -> bool:
        return self.served.agrees and (self.as_traced is None or self.as_traced.agrees)

    @property
    def difference(self) -> Difference | None:
        """Of what is served, or else of what was traced."""
        return self.served.difference or (self.as_traced.difference if self.as_traced is not None else None)
