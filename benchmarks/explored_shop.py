"""The whole way by the command line on a shop that sorts: explore, serve, bias, learn, judge.

`python -m benchmarks.explored_shop` makes a shop whose production sorts 20 products per query and
shows ten. Its log of fixed lists cannot tell position bias. A plan is made from it, served to the
sessions of the next log, and clicked by users whose alpha and beta are known; every number that
matters is printed beside the truth.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.clicks.bias import canonical
from saferank.data import read_items
from saferank.learning import Ranker
from saferank.plackett_luce import rank_probabilities

RANKS, SIZE = 10, 20
USERS = ClickModel(
    np.array([0.55, 0.42, 0.34, 0.28, 0.235, 0.2, 0.175, 0.155, 0.14, 0.125]),
    np.array([0.06, 0.03, 0.02, 0.015, 0.012, 0.01, 0.009, 0.008, 0.007, 0.006]),
)


@dataclass(frozen=True, eq=False)
class Shop:
    """Queries of very different traffic; relevance follows features that production half knows."""

    queries: int
    seed: int

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        documents = SIZE * self.queries
        x = rng.normal(size=(documents, 3))
        logit = -2.2 + 1.2 * x[:, 0] + 0.7 * x[:, 1] + 0.5 * rng.normal(size=documents)
        object.__setattr__(self, "features", x)
        object.__setattr__(self, "relevance", 1 / (1 + np.exp(-logit)))
        object.__setattr__(self, "score", 0.8 * x[:, 1] + 0.5 * x[:, 2])
        traffic = 1 / np.arange(1.0, self.queries + 1) ** 0.7
        object.__setattr__(self, "traffic", traffic / traffic.sum())

    features: Floats = None  # type: ignore[assignment]
    relevance: Floats = None  # type: ignore[assignment]
    score: Floats = None  # type: ignore[assignment]
    traffic: Floats = None  # type: ignore[assignment]

    def items(self, path: Path) -> None:
        """The items, with names of the shop's own."""
        query = np.repeat(np.arange(self.queries), SIZE)
        columns = {
            "term": [f"q{number}" for number in query],
            "sku": [f"q{q}-{d}" for q in range(self.queries) for d in range(SIZE)],
            "margin": self.features[:, 0],
            "match": self.features[:, 1],
            "age": self.features[:, 2],
            "production_score": self.score,
        }
        pq.write_table(pa.table(columns), path)

    def asked(self, sessions: int, name: str, path: Path) -> None:
        """Who asks what."""
        rng = np.random.default_rng([self.seed, len(name), sessions])
        query = rng.choice(self.queries, sessions, p=self.traffic)
        columns = {"term": [f"q{q}" for q in query],
                   "session_id": [f"{name}{i}" for i in range(sessions)]}  # fmt: skip
        pq.write_table(pa.table(columns), path)

    def clicks(self, shown: Path, path: Path, seed: int) -> None:
        """Clicks of the users on rankings that were served."""
        table = pq.read_table(shown)
        place = {f"q{q}-{d}": SIZE * q + d for q in range(self.queries) for d in range(SIZE)}
        documents = np.array([place[name] for name in table["doc_id"].to_pylist()])
        rank = table["rank"].to_numpy() - 1
        chance = USERS.probability(self.relevance[documents])[np.arange(rank.size), rank]
        click = np.random.default_rng([self.seed, seed]).random(rank.size) < chance
        pq.write_table(table.append_column("click", pa.array(click)), path)

    def expected(self, table: pa.Table) -> float:
        """Clicks that users are expected to make on rankings."""
        place = {f"q{q}-{d}": SIZE * q + d for q in range(self.queries) for d in range(SIZE)}
        documents = np.array([place[name] for name in table["doc_id"].to_pylist()])
        rank = table["rank"].to_numpy() - 1
        return float(USERS.probability(self.relevance[documents])[np.arange(rank.size), rank].sum())


class Line:
    """The command line in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """Run a command; its output."""
        print("$ saferank", *words, flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "saferank", *words], cwd=self.folder, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if done.returncode not in codes:
            raise SystemExit(f"exit code {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout


def served_in_order(shop: Shop, line: Line, sessions: int) -> None:
    """Production's own log: always the same list."""
    shop.asked(sessions, "old", line.folder / "old.parquet")
    words = ("--items", "items.parquet", *NAMES, "-k", str(RANKS), "--sessions", "1e6")
    line("explore", *words, "--choose", "production", "-o", "still")
    line("rank", "still", *words[:6], "--sessions", "old.parquet", "-o", "old-shown.parquet")
    shop.clicks(line.folder / "old-shown.parquet", line.folder / "old-log.parquet", 1)


NAMES = ("--column", "query_id=term", "--column", "doc_id=sku")


def run(folder: Path, queries: int, sessions: int, seed: int) -> dict[str, Any]:
    """All commands; what they said beside the truth."""
    shop, line = Shop(queries, seed), Line(folder)
    shop.items(folder / "items.parquet")
    served_in_order(shop, line, sessions // 4)
    line("count", "old-log.parquet", "-o", "old-counts.parquet")
    refused = line("bias", "old-counts.parquet", codes=(2,))
    items = ("--items", "items.parquet", *NAMES)
    plan = json.loads(
        line("explore", *items, "-k", str(RANKS), "--sessions", str(sessions), "--counts",
             "old-counts.parquet", "--depth", str(SIZE), "-o", "plan", "--chart", "plan.html",
             "--json")
    )  # fmt: skip
    shop.asked(sessions, "new", folder / "new.parquet")
    line("rank", "plan", *items, "--sessions", "new.parquet", "-o", "shown.parquet")
    shop.clicks(folder / "shown.parquet", folder / "log.parquet", 2)
    line("count", "log.parquet", "--column", "propensity=propensity", "-o", "counts.parquet")
    fits = {
        name: json.loads(line("bias", "counts.parquet", "--json", *words))
        for name, words in {
            "trust": ("-o", "bias.json"),
            "trust, recorded": ("--policy", "recorded", *items),
        }.items()
    }
    line("learn", *items, "--counts", "counts.parquet", "--bias", "bias.json", "-o", "run")
    judged = line("certify", "run", *items, "--counts", "counts.parquet", "--json", codes=(0, 3))
    return {"shop": shop, "plan": plan, "fits": fits, "refused": refused,
            "judged": json.loads(judged)}  # fmt: skip


def tell(folder: Path, found: dict[str, Any]) -> None:
    """What was said beside the truth."""
    shop, plan = found["shop"], found["plan"]
    chosen = next(one for one in plan["outlooks"] if one["name"] == plan["chosen"])
    truth = canonical(USERS)
    print(f"\nchosen: {plan['chosen']}; can lose {chosen['largest_loss']:.2%}")
    shown, old = (
        pq.read_table(folder / "shown.parquet"),
        pq.read_table(folder / "old-shown.parquet"),
    )
    new_rate = shop.expected(shown) / (shown.num_rows / RANKS)
    old_rate = shop.expected(old) / (old.num_rows / RANKS)
    print(f"expected loss said {chosen['expected_loss']:+.2%}, true {1 - new_rate / old_rate:+.2%}"
          " (of clicks, other sessions)")  # fmt: skip
    print("rank  true slope | by documents: slope  error  said before | by propensities: slope")
    fits = found["fits"]
    by = {name: fit["canonical"] for name, fit in fits.items()}
    for rank in range(RANKS):
        said = chosen["errors"]["trust"][rank]
        first, second = by["trust"], by["trust, recorded"]
        print(f"{rank + 1:4d}  {truth.slope[rank]:10.3f} | {first['slope'][rank]:19.3f} "
              f"{first['slope_error'][rank] / first['slope'][rank]:6.3f}  {said:11.3f} | "
              f"{second['slope'][rank]:10.3f} +- {second['slope_error'][rank]:.3f}")  # fmt: skip
    judged = found["judged"]
    print(judged["verdict"])
    clicks, gap = judged["clicks"], judged["clicks"]["difference"]
    items = read_items(folder / "items.parquet", columns={"query_id": "term", "doc_id": "sku"})
    table = rank_probabilities(Ranker.load(folder / "run").scores(items), RANKS, items.offsets)
    worth = flat.query_sums((table * USERS.probability(shop.relevance)).sum(axis=1), items.offsets)
    print(f"clicks per session: served {clicks['production']:.4f}, true {new_rate:.4f}; the new "
          f"ranker's change {gap['estimate']:+.4f} ({gap['lower']:+.4f} to {gap['upper']:+.4f}), "
          f"true {float(shop.traffic @ worth) - new_rate:+.4f}")  # fmt: skip


def main() -> None:
    """Run it in a scratch folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--sessions", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    folder = asked.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    tell(folder, run(folder, asked.queries, asked.sessions, asked.seed))


if __name__ == "__main__":
    main()
