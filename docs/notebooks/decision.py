# %% [markdown]
# # The decision, on a simulated shop
#
# A shop has a production ranker and a log of its clicks. Is a ranker that was learned from that log
# safe to ship? Here users are simulated, so that every answer can be compared with the truth.

# %%
import numpy as np

import saferank as sr

world = sr.data.synthetic("small", queries=120, seed=1)
click_model = sr.clicks.trust_bias()
shown = sr.clicks.stand_in_production(world.train, seed=1)
counts = sr.clicks.simulate(world.train, shown, click_model, sessions=60_000, seed=1)
counts

# %% [markdown]
# A fifth of the sessions is set aside to judge by. `learn` sees the others only.

# %%
settings = sr.learning.Settings(steps=150)
ranker = sr.learn(
    world.train, counts, click_model, method="prpo", scorer="linear",
    production=shown, settings=settings, seed=1,
)  # fmt: skip

# %% [markdown]
# `assess` is what `saferank certify` does.

# %%
assessment = sr.assess(
    ranker, world.train, counts=counts, click_model=click_model, production=shown
)
assessment.decision.sentence

# %% [markdown]
# The truth, which only a simulation knows: utility under the true relevance.

# %%
relevance = sr.clicks.relevance(world.train.labels, world.highest_grade)
weights = click_model.exposure_weights


def utility(scores):
    """Mean utility per query of rankings drawn by scores."""
    omega = sr.plackett_luce.exposure(scores, weights, world.train.offsets)
    return float(omega @ relevance) / world.train.queries


truth = utility(ranker.scores(world.train)) / utility(shown) - 1
f"{truth:+.1%} utility in truth"

# %% [markdown]
# What can a single query lose, whatever users want? The certificate follows from the two policies
# alone; the guard then keeps the promise.

# %%
certificate = sr.certify(ranker, world.train, production=shown, weights=weights)
guard = sr.Guard(ranker, shown, promise=sr.safety.Promise(0.9, 0.01), weights=weights)
certificate.share_holding, guard.rank(world.train, 5, session="u17")[0].tolist()

# %%
assert np.isfinite(truth)
