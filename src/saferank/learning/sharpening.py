r"""How sharply to draw from production's scores where learning starts: as far as clicks warrant it.

Drawing from :math:`f s` instead of from production's scores :math:`s` is one number to learn, so a
hundred sessions can tell something about it where they cannot about a ranker. For each factor f the
gain is estimated by affine IPS from the sessions to learn from,

.. math:: \sum_q \tfrac{N_q}{N} \sum_d (\omega_f(d) - \omega_0(d))\,\hat R_d ,

and the factor of the largest estimate less `CAUTION` standard errors (over queries) is taken; none,
that is 1, where that is below 0 for all of them. With more sessions learning does better from
production as it is: a sharper one is a peaked one, and holds PRPO back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.estimators import ESTIMATORS
from saferank.learning.problem import Log, terms
from saferank.plackett_luce import exposure

FACTORS = (1.25, 1.5, 2.0)
"""What scores may be multiplied by; beyond 2 a good production gains little, a bad one loses."""
CAUTION = 0.5
"""Standard errors that are taken off an estimate."""


@dataclass(frozen=True)
class Sharpening:
    """The factor that was taken, its estimated gain of utility per session, and that's error."""

    factor: float = 1.0
    gain: float = 0.0
    error: float = 0.0


def sharpen(log: Log, click_model: ClickModel, weights: Floats) -> Sharpening:
    """The factor that the clicks of a log warrant; its scores are what production draws from.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=100, seed=0).train
    >>> model, good = sr.clicks.trust_bias(), 0.3 * items.labels
    >>> for scores in (good, -good):
    ...     counts = sr.clicks.simulate(items, scores, model, sessions=2000, seed=0)
    ...     log = Log(replace(items, production=scores), counts)
    ...     sharpen(log, model, model.exposure_weights).factor
    2.0
    1.0
    """
    assert log.data.production is not None
    by_log = log.propensities(click_model, weights)
    evidence = terms(log, ESTIMATORS["affine-ips"], click_model, weights, by_log)
    choices = [Sharpening()]
    for factor in FACTORS:
        omega = exposure(factor * log.data.production, weights, log.data.offsets)
        gains = flat.query_sums((omega - evidence.omega0) * evidence.gain, log.data.offsets)
        gain = float(log.share() @ gains)
        error = float(np.linalg.norm(log.share() * (gains - gain)))
        choices.append(Sharpening(factor, gain, error))
    return max(choices, key=lambda each: each.gain - CAUTION * each.error)
