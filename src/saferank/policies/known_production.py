"""Whether production's policy is known: by what was said of it, if the log agrees, or by the log.

A policy that puts documents at ranks by chance, with known probabilities, tells click models apart
from relevance even where every list was seen once (`saferank.clicks.KnownPolicy`).
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Array
from saferank.clicks import KnownPolicy
from saferank.counts import Counts
from saferank.errors import InputError, require
from saferank.policies.choosing import LEVEL, choose_production
from saferank.policies.production import filled_ranks
from saferank.policies.production_fit import ProductionFit
from saferank.policies.random_order import random_order_p_value
from saferank.policies.recorded import TOLD, of_sessions, told_share

Said = Literal["auto", "uniform", "recorded", "score", "none"]
SAID: tuple[Said, ...] = get_args(Said)
"""What can be said of production's policy; `auto` asks the log, `none` takes nothing for known."""


def known_policy(
    counts: Counts,
    scores: npt.ArrayLike | None = None,
    said: str = "auto",
    *,
    features: Array | None = None,
) -> KnownPolicy | None:
    """Production's probabilities of documents at ranks, where they are known.

    Parameters
    ----------
    counts : the log's counts, of all its sessions.
    scores : production's scores, one per document, where they are known.
    said : one of `SAID`: that lists were in `uniform` random order, that propensities were
        `recorded`, that lists were drawn by the `score`, `none`; or `auto`.
    features : documents x features; that lists were uniform is refused if one tells their order.

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
        confirmed, contradiction = _recorded(everything)
        if confirmed is not None:
            return confirmed
        if said == "recorded":
            raise InputError(f"`policy` must be what made the log: {contradiction}")
    kind = {"uniform": "uniform", "score": "sampled", "auto": "auto"}[said]
    policy, fit = choose_production(everything, scores, kind)
    if said != "auto" and fit.fits is False:
        raise InputError(f"`policy` must be what made the log: {fit.sentence}")
    if said == "auto" and (fit.kind not in ("uniform", "sampled") or not fit.fits):
        return None
    why = fit.sentence if fit.fits else _as_said(fit, everything, features)
    return KnownPolicy(policy.rank_probabilities(counts.ranks), why)


def _as_said(fit: ProductionFit, counts: Counts, features: Array | None) -> str:
    """How a policy is known that the log is too small to confirm, unless it contradicts it."""
    if fit.kind != "uniform":
        return "Production is taken to draw lists by its score, as you say."
    said = "Lists are taken to be in uniformly random order, as you say"
    p_value = None if features is None else random_order_p_value(counts, features)
    if p_value is None:
        return f"{said}; nothing else in the log can confirm it."
    if p_value < LEVEL:
        raise InputError(
            "`policy` must be what made the log: lists are not in random order, as features tell "
            f"the ranks (p = {p_value:.2g})."
        )
    return f"{said}, and no feature tells the order (p = {p_value:.2g})."


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
