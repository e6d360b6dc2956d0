"""RankLens, split by user many times: estimates beside held-out lists, rankers side by side.

Lists were in uniformly random order, so that held-out lists judge a ranker without a click model:
the mean of `24 * 1{ranker has d_k at rank k} * click_k` over the first five ranks is unbiased.

    python -m benchmarks.real_case /path/to/ranklens --splits 20
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import saferank as sr
from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.seeds import generator
from saferank.counts import Counts
from saferank.data import RankingData

RANKS = 5
KIND = "trust"
SETTINGS = sr.learning.Settings(rounds=60, leaves=15)


def read(folder: Path) -> tuple[RankingData, Counts]:
    """Items and counts, with users as clusters; robots as `logs check` finds them are left out."""
    columns = {"user_id": "user"}
    log = folder / "log.parquet"
    robots = sr.logs.check_log(log, columns=columns).robots.table()
    items = sr.data.read_items(folder / "items.parquet")
    table = sr.count(log, columns=columns, exclude=robots, judge=0)
    counts, _ = sr.logs.align(table, items)
    seen = np.flatnonzero(counts.sessions)
    return items.subset(seen), counts.subset(seen)


def places(scores: Floats, offsets: Ints) -> Ints:
    """The rank, from 0, that scores give to each document."""
    order = np.lexsort((-scores, flat.query_of(offsets)))
    place = np.empty(scores.size, dtype=np.int64)
    place[order] = np.arange(scores.size) - flat.repeat_per_document(offsets[:-1], offsets)
    return place


def matched(scores: Floats, counts: Counts) -> Floats:
    """Clicks in the first five of each list by item-position matching."""
    place = places(scores, counts.offsets)
    size = flat.sizes(counts.offsets)
    document, rank = np.nonzero(counts.clicks)
    hit = (place[document] == rank) & (rank < RANKS)
    query = flat.query_of(counts.offsets)[document]
    return np.bincount(query, size[query] * hit, counts.queries)


def by_user(values: Floats, counts: Counts) -> tuple[float, float]:
    """Mean over lists, and its standard error with users as units."""
    assert counts.cluster is not None
    unit = np.unique(counts.cluster, return_inverse=True)[1]
    off = np.bincount(unit, values - values.mean())
    return float(values.mean()), float(np.sqrt(off @ off) / values.size)


def boosted(data: RankingData, counts: Counts, position: bool) -> object:
    """LightGBM's lambdarank on clicks as labels, with or without the position of each document."""
    import lightgbm

    rank = counts.impressions.argmax(axis=1)
    settings = {
        "objective": "lambdarank", "num_leaves": 15, "learning_rate": 0.1, "verbosity": -1,
        "lambdarank_truncation_level": 10, "seed": 0, "deterministic": True,
        "force_col_wise": True,
    }  # fmt: skip
    table = lightgbm.Dataset(
        data.features,
        counts.clicks.sum(axis=1),
        group=data.sizes,
        position=rank if position else None,
    )
    return lightgbm.train(settings, table, num_boost_round=60)


def one_split(data: RankingData, counts: Counts, seed: int) -> dict[str, object]:
    """Half of the users to learn from, a quarter to judge by, a quarter held out."""
    assert counts.cluster is not None
    unit = np.unique(counts.cluster, return_inverse=True)[1]
    draw = generator(seed, "users").random(int(unit.max()) + 1)[unit]
    parts = [
        np.flatnonzero(one) for one in (draw < 0.5, (draw >= 0.5) & (draw < 0.75), draw >= 0.75)
    ]
    (learn, learned), (judge, judged), (held, held_counts) = (
        (data.subset(part), counts.subset(part)) for part in parts
    )
    fit = sr.learning.fit_bias(learned, learn, kind=KIND, policy="uniform")
    # clicks that depend on relevance: beta adds up to the same for every ranker
    weights = np.where(np.arange(counts.ranks) < RANKS, fit.model.alpha, 0.0)
    ranker = sr.learn(
        learn, learned, fit.model, method="lambda", scorer="trees", weights=weights,
        settings=SETTINGS, seed=seed,
    )  # fmt: skip
    found = sr.evaluation.evaluate(
        ranker.scores(judge),
        judge,
        judged,
        fit.model,
        weights=weights,
        deployed="sorted",
        production=sr.policies.ProductionPolicy.uniform(judge.offsets),
    ).interval()
    names = {name: number for number, name in enumerate(data.feature_names or ())}
    shown = held_counts.clicks[:, :RANKS].sum(axis=1)
    random = flat.query_sums(shown.astype(np.float64), held.offsets)
    rankers = {
        "saferank": ranker.scores(held),
        "popularity": held.features[:, names["popularity"]].astype(np.float64),
        "vote_cnt": held.features[:, names["vote_cnt"]].astype(np.float64),
        "lambdarank": boosted(learn, learned, False).predict(held.features),  # type: ignore[attr-defined]
        "lambdarank, position": boosted(learn, learned, True).predict(held.features),  # type: ignore[attr-defined]
    }
    values = {name: matched(scores, held_counts) for name, scores in rankers.items()}
    values["random"] = random
    truth = by_user(values["saferank"] - random, held_counts)
    return {"interval": found, "truth": truth, "values": values, "counts": held_counts, "fit": fit}


def main() -> None:
    """Print the tables of docs/real-case.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=20)
    arguments = parser.parse_args()
    data, counts = read(arguments.folder)
    inside = both = 0
    pooled: dict[str, list[float]] = {}
    print("split  estimated difference [95 %]        held-out difference (error)   in   both")
    for seed in range(arguments.splits):
        start = time.process_time()
        result = one_split(data, counts, seed)
        found, (truth, error) = result["interval"], result["truth"]  # type: ignore[misc, index]
        in_it = found.lower <= truth <= found.upper  # type: ignore[attr-defined]
        width = np.hypot((found.upper - found.lower) / 2, 1.96 * error)  # type: ignore[attr-defined]
        in_both = abs(found.estimate - truth) <= width  # type: ignore[attr-defined]
        inside, both = inside + in_it, both + in_both
        print(
            f"{seed:>5}  {found.estimate:.3f} [{found.lower:.3f}, {found.upper:.3f}]  "  # type: ignore[attr-defined]
            f"{truth:.3f} ({error:.3f})  {in_it!s:>5} {in_both!s:>5}  "
            f"{time.process_time() - start:.0f} s",
            flush=True,
        )
        for name, values in result["values"].items():  # type: ignore[attr-defined]
            pooled.setdefault(name, []).append(float(values.mean()))
            gap = by_user(result["values"]["saferank"] - values, result["counts"])  # type: ignore[index, arg-type]
            pooled.setdefault(f"saferank - {name}", []).append(gap[0])
            pooled.setdefault(f"error of saferank - {name}", []).append(gap[1])
    print(f"held in {inside} of {arguments.splits}, with held-out error {both}")
    for name, values in pooled.items():
        print(f"{name:<40} {np.mean(values):.3f}  (spread over splits {np.std(values):.3f})")


if __name__ == "__main__":
    main()
