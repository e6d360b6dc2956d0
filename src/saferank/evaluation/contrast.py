"""Two policies and the sessions that tell them apart: what estimates and bounds are made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.data import RankingData
from saferank.estimators import Evidence
from saferank.evaluation.sessions import LogRows
from saferank.evaluation.support import Support, support_of


@dataclass(frozen=True, eq=False)
class Contrast:
    """A new policy beside production, by exposures, and the sessions to judge by.

    Attributes
    ----------
    omega, omega0 : exposures of the new policy and of production, one per document.
    evidence : counts of the sessions to judge by, click model, propensities; predictions where a
        regression on other sessions has made them.
    rows : the rows that the counts are of and their items, for the exact variance between sessions
        (one pass over the log).

    Examples
    --------
    >>> import numpy as np
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=60, seed=0).train
    >>> model, scores = sr.clicks.trust_bias(), np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, scores, model, sessions=20_000, seed=0)
    >>> shown, weights = sr.policies.ProductionPolicy.uniform(items.offsets), model.exposure_weights
    >>> evidence = sr.estimators.Evidence(
    ...     counts, model, sr.estimators.by_policy(shown, model, weights)
    ... )
    >>> better = sr.plackett_luce.exposure(items.labels, weights, items.offsets)
    >>> contrast = Contrast(better, shown.exposure(weights), evidence)
    >>> sr.evaluation.lower_bound(contrast).lower > 0
    True
    """

    omega: Floats
    omega0: Floats
    evidence: Evidence
    rows: tuple[LogRows, RankingData] | None = None

    @property
    def loss(self) -> Floats:
        """What production exposes more than the new policy, one per document."""
        return self.omega0 - self.omega

    def support(self) -> Support:
        """How far the sessions can tell of the new policy."""
        return support_of(self.omega, self.evidence)

    def subset(self, queries: Ints) -> Contrast:
        """The same on some queries, without rows."""
        documents, _ = flat.gather(self.evidence.counts.offsets, queries)
        return Contrast(
            self.omega[documents], self.omega0[documents], self.evidence.subset(queries)
        )

    def blocks(self) -> Iterator[Contrast]:
        """The same some queries at a time, without rows."""
        for documents, evidence in self.evidence.blocks():
            yield Contrast(self.omega[documents], self.omega0[documents], evidence)

    def against(self, omega0: Floats) -> Contrast:
        """Production in the new policy's place, compared with something else."""
        return replace(self, omega=self.omega0, omega0=omega0)
