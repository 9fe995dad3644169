"""The proof with other datatypes: the sizes that were proven with the example's must be proven with them as well.

The model may do something else from a size on where its input has another datatype. A few calls do not show that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from tracehouse.check.evidence import Evidence
from tracehouse.check.prove.prover import prove
from tracehouse.check.target import Target
from tracehouse.contract.contract import MethodClaim
from tracehouse.contract.regions import Region, Span
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call
from tracehouse.tensors.tensor import Datatype


class DatatypeProver:
    """Proves the sizes that a claim has proven once more, on inputs of other datatypes."""

    def __init__(self, target: Target, evidence: Evidence, claim: MethodClaim, budget: Budget) -> None:
        self._target = target
        self._evidence = evidence
        # Whether all sizes of the claim are proven, so that each of them is proven once more.
        self.proves_all = bool(claim.regions) and all(region.basis == "proven" for region in claim.regions)
        self._regions = [region for region in claim.regions if region.basis in ("proven", "sampled")]
        self._budget = budget

    def covers(self, changed: Mapping[str, Datatype]) -> bool:
        """Whether what is proven with the example's datatypes is proven with these as well, and is all of the claim.

        It is so for INT32 in place of INT64 where neither side can tell them apart. The other way round, a number may
        be one that the example's datatype cannot hold.
        """
        proof, own = self._evidence.prove.proof, self._target.call.tensors
        narrows = all(one is Datatype.INT32 and own[name].dtype is torch.int64 for name, one in changed.items())
        return narrows and self.proves_all and proof is not None and not proof.tells_widths

    def holds(self, call: Call) -> bool:
        """Whether all that the claim has proven is proven as well for this call, which has the example's sizes.

        What is sampled may be either. True if the claim has nothing that is proven.
        """
        groups, observation = self._evidence.groups, self._evidence.observe.observation
        if not self._regions or groups is None or observation is None:
            return not self._regions
        wanted = {symbol: self._wanted(symbol) for region in self._regions[:1] for symbol in region.spans}
        flip = self._evidence.flip
        lines, numbers = flip.harmless_lines, flip.harmless_numbers | observation.numbers
        proof = prove(replace(self._target, call=call), groups, wanted, self._budget, lines, numbers, self._reach())
        every = [*proof.regions, *proof.proven_on_symbols, *proof.sampled]
        return all(
            any(
                _contains(one, region, groups.example) for one in (proof.regions if region.basis == "proven" else every)
            )
            for region in self._regions
        )

    def _reach(self) -> dict[str, int]:
        """Return how far the sizes go on that the claim has beyond those that were called."""
        every = [one for region in self._regions for one in region.beyond.items()]
        return {symbol: max(end for one, end in every if one == symbol) for symbol, _ in every}

    def _wanted(self, symbol: str) -> Sequence[int]:
        spans = {span for region in self._regions for span in region.spans[symbol]}
        return sorted({size for span in spans for size in range(span.low, span.high + 1, span.step)})


def _contains(region: Region, other: Region, example: Mapping[str, int]) -> bool:
    """Whether the region has all sizes of the other, also beyond, and the example's of each symbol that it lacks."""
    fixed = {symbol: [Span(low=size, high=size)] for symbol, size in example.items() if symbol not in other.spans}
    goes_on = all(region.beyond.get(symbol, 0) >= end for symbol, end in other.beyond.items())
    return goes_on and all(
        all(any(_covers(one, span) for one in region.spans[symbol]) for span in spans)
        for symbol, spans in {**fixed, **other.spans}.items()
    )


def _covers(span: Span, other: Span) -> bool:
    return other.low in span and other.high in span and other.step % span.step == 0
