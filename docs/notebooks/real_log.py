# %% [markdown]
# # Off-policy evaluation on a real log
#
# RankLens: people were shown lists of 24 films in uniformly random order. The chance of any film at
# any rank is 1/24, so clicks judge any ranker without a click model. Set `RANKLENS` to the folder
# with `log.parquet` and `items.parquet`.

# %%
import os

import numpy as np

import saferank as sr

folder = os.environ["RANKLENS"]
table = sr.count(f"{folder}/log.parquet", columns={"user_id": "user"}, top=5)
items = sr.data.read_items(f"{folder}/items.parquet")
counts, matched = sr.logs.align(table, items)
matched.sentences()[0]

# %% [markdown]
# How would lists sorted by popularity do, in clicks on the first five? The item-position model
# needs nothing but the chance of each film at each rank.

# %%
popularity = items.features[:, items.schema.names.index("popularity")].astype(np.float64)
production = sr.policies.ProductionPolicy.uniform(items.offsets)
by_popularity = sr.evaluation.evaluate_clicks(
    popularity, items, counts, production, estimator="ipm", deployed="sorted"
)
interval = by_popularity.interval()
f"{interval.lower:+.2f} to {interval.upper:+.2f} clicks on the first five more than random order"

# %%
assert interval.lower > 0
