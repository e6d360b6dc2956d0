"""Scaling features within a limit of memory and without one: processor time and page faults.

`python -m benchmarks.scaling_pages [PAIRS]` fits and applies `log1p` to so many pairs of 136
features (100,000 unless given), the second of two times; the scaled bits are the same.
"""

from __future__ import annotations

import resource
import sys

import numpy as np

from benchmarks.many_pairs import DOCUMENTS, WIDTH
from saferank.data import RankingData, within_memory
from saferank.data.scaling import Scaling

LIMIT = 4_000_000_000


def main() -> None:
    """Measure both."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    features = np.random.default_rng(0).standard_normal((pairs, WIDTH), dtype=np.float32)
    data = RankingData(features, np.arange(0, pairs + 1, DOCUMENTS))
    for limit in (None, LIMIT):
        with within_memory(limit):
            for _ in range(2):
                before = resource.getrusage(resource.RUSAGE_SELF)
                scaled = Scaling.fit(data, "log1p").apply(data).features
                after = resource.getrusage(resource.RUSAGE_SELF)
        user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
        print(
            f"memory {'any' if limit is None else limit}: {(user + system) / pairs * 1e6:.1f} us "
            f"of processor time per pair, the system's {system / pairs * 1e6:.1f}; "
            f"{after.ru_minflt - before.ru_minflt:,} page faults; sum {float(scaled.sum())}"
        )


if __name__ == "__main__":
    main()
