# %% [markdown]
# # The paper's study in small
#
# Learn from more and more simulated sessions, with and without safety, and compare with production
# on test queries. `saferank reproduce all` does it at full size.

# %%
import saferank as sr

world = sr.data.synthetic("small", queries=100, seed=0)
click_model = sr.clicks.trust_bias()
shown = sr.clicks.stand_in_production(world.train, seed=0)
settings = sr.learning.Settings(steps=80)


def ndcg(ranker):
    """Expected NDCG@5 on test queries."""
    scores = ranker.scores(world.test)
    values = sr.plackett_luce.expected_ndcg(scores, world.test.labels, world.test.offsets, k=5)
    return sr.metrics.mean(values)


# %%
rows = []
for sessions in (100, 10_000, 1_000_000):
    counts = sr.clicks.simulate(world.train, shown, click_model, sessions=sessions, seed=0)
    for method in ("dr", "prpo"):
        ranker = sr.learn(
            world.train, counts, click_model, method=method, scorer="linear",
            production=shown, settings=settings, seed=0,
        )  # fmt: skip
        rows.append((sessions, method, round(ndcg(ranker), 3)))
rows

# %% [markdown]
# DR without safety is far below PRPO with a hundred sessions, and level with it later.

# %%
few = {method: value for sessions, method, value in rows if sessions == 100}
assert few["prpo"] > few["dr"]
