"""A new estimator, a new objective and a new click model, as a user would write them."""

import numpy as np

import saferank as sr


def shrunken_ips(known):
    """IPS drawn towards 0, the more the less a document was shown."""
    shown = known.counts.impressions.sum(axis=1)
    return known.counts.ctr() / (known.propensities.rho + 1 / (1 + shown))


def cautious(context):
    """Utility less a price for moving exposures away from production's."""

    def reward(omega, terms):
        moved = omega - terms.omega0
        value = omega * terms.gain - 0.5 * context.delta * moved**2
        return sr.objectives.ValueSlope(value, terms.gain - context.delta * moved)

    return sr.objectives.Objective(reward)


def tired_users(ranks=5):
    """Half as many look at each rank as at the one above, and one in fifty clicks by mistake."""
    return sr.clicks.ClickModel(0.9 * 0.5 ** np.arange(ranks), np.full(ranks, 0.02))
