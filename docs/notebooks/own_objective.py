# %% [markdown]
# # An objective of your own
#
# A method is an estimator, an objective and a scorer. Here is an objective that is not in the
# package: utility with diminishing returns, so that no document takes all the exposure.
#
# $$\sum_d \mu_d \, \sqrt{\omega_d + \epsilon}$$

# %%
import numpy as np

import saferank as sr
from saferank.objectives import Objective, ValueSlope


def rooted(context):
    """Gain times the square root of exposure."""
    del context

    def value_and_slope(omega, terms):
        root = np.sqrt(np.maximum(omega, 0.0) + 1e-3)
        return ValueSlope(terms.gain * root, terms.gain / (2 * root))

    return Objective(value_and_slope)


# %% [markdown]
# The contract checks value against slope, and the whole chain.

# %%
sr.testing.check_objective(rooted)

# %%
world = sr.data.synthetic("small", queries=40, seed=0).train
click_model, shown = sr.clicks.trust_bias(), np.zeros(world.documents)
counts = sr.clicks.simulate(world, shown, click_model, sessions=5000, seed=0)
recipe = sr.Recipe("dr", rooted, scorer="linear")
settings = sr.learning.Settings(steps=30)
ranker = sr.learn(
    world, counts, click_model, method=recipe, production=shown, settings=settings, seed=0
)
ranker.provenance.method
