"""Whether production's policy is known: by what was said of it, if the log agrees, or by the log.

A policy that puts documents at ranks by chance, with known probabilities, tells click models apart
from relevance even where every list was seen once (`saferank.clicks.KnownPolicy`).
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank.clicks import KnownPolicy
from saferank.counts import Counts
from saferank.errors import InputError, require
from saferank.policies.choosing import choose_production
from saferank.policies.production import filled_ranks
from saferank.policies.production_fit import ProductionFit
from saferank.policies.recorded import TOLD, of_sessions, told_share

Said = Literal["auto", "uniform", "recorded", "score", "none"]
SAID: tuple[Said, ...] = get_args(Said)
"""What can be said of production's policy; `auto` asks the log, `none` takes nothing for known."""


def known_policy(
    counts: Counts, scores: npt.ArrayLike | None = None, said: str = "auto"
) -> KnownPolicy | None:
    """Production's probabilities of documents at ranks, where they are known.

    Parameters
    ----------
    counts : the log's counts, of all its sessions.
    scores : production's scores, one per document, where they are known.
    said : one of `SAID`: that lists were in `uniform` random order, that propensities were
        `recorded`, that lists were drawn by the `score`, `none`; or `auto`.

    Returns
    -------
    The policy and how it is known; None where it is not.

    Raises
    ------
    InputError
        If what was said contradicts the log, or lacks what it needs.

    Examples
    --------
    >>> once = Counts([0, 2, 4], [[1, 0], [0, 1], [0, 1], [1, 0]], np.zeros((4, 2), dtype=int))
    >>> known_policy(once) is None
    True
    >>> known_policy(once, said="uniform").propensity[0].round(6)
    array([0.5, 0.5])
    """
    require(said in SAID, "policy", f"one of {', '.join(SAID)}", said)
    if said == "none":
        return None
    everything = counts.part("all")
    if said == "recorded" or (said == "auto" and counts.propensity is not None):
        known, contradiction = _recorded(everything)
        if known is not None:
            return known
        if said == "recorded":
            raise InputError(f"`policy` must be what made the log: {contradiction}")
    kind = {"uniform": "uniform", "score": "sampled", "auto": "auto"}[said]
    policy, fit = choose_production(everything, scores, kind)
    if said != "auto" and fit.fits is False:
        raise InputError(f"`policy` must be what made the log: {fit.sentence}")
    if said == "auto" and (fit.kind not in ("uniform", "sampled") or not fit.fits):
        return None
    return KnownPolicy(policy.rank_probabilities(counts.ranks), _how(fit))


def _how(fit: ProductionFit) -> str:
    if fit.fits:
        return fit.sentence
    words = {"uniform": "uniformly random lists", "sampled": "lists drawn by the score"}
    return (
        f"Production is taken for {words[fit.kind]}, as you say; lists are too seldom repeated for "
        "the log to confirm it."
    )


def _recorded(counts: Counts) -> tuple[KnownPolicy | None, str]:
    """Recorded propensities: of all documents where they tell them, or of those that were shown.

    None where documents were not shown as often as they say, and the sentence that tells it.
    """
    policy, fit = choose_production(counts, None, "recorded")
    if fit.fits:
        assert policy.table is not None
        return KnownPolicy(policy.table, fit.sentence), ""
    assert counts.propensity is not None
    filled = filled_ranks(counts)
    table = of_sessions(counts.propensity, counts, filled)
    most = float(flat.query_sums(counts.propensity, counts.offsets).max(initial=0.0))
    if most > 1.001 or told_share(counts, table, filled) >= TOLD:
        return None, fit.sentence
    why = "Production's propensities are those recorded in the log, for what it has shown."
    shown = np.where(counts.impressions > 0, table, 0.0)
    return KnownPolicy(shown, why, complete=False), ""
