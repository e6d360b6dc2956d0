"""`reproduce`: from a study to its figures, claims and page, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from saferank.experiments.learning_curves import FIGURES, plan
from saferank.experiments.results import read_results
from saferank.experiments.study import Study, fingerprint, open_collection
from saferank.experiments.study_page import Written, write_page
from saferank.experiments.sweep import Outcome, sweep


@dataclass(frozen=True)
class Reproduction:
    """How the jobs went, and what was written."""

    outcome: Outcome
    written: Written


def reproduce(
    study: Study,
    folder: str | Path,
    *,
    figures: Sequence[int] = FIGURES,
    workers: int | None = None,
    cluster: str | None = None,
) -> Reproduction:
    """Run what the figures need, and write figures, claims and `index.html` to `folder`.

    Stopped at any time, the same call goes on where it was: results lie in `folder/results`.

    Parameters
    ----------
    study
        Which collection, conditions and seeds.
    folder
        Where results and figures go.
    figures
        Their numbers, of `FIGURES`.
    workers
        Processes; by default one per core.
    cluster
        Address of a Dask scheduler, instead of processes here.

    Returns
    -------
    Reproduction
        The outcome of the sweep, and the page.

    See Also
    --------
    saferank.experiments.PRESETS : conditions to start from.
    """
    target = Path(folder)
    results = target / "results"
    collection = open_collection(study.data, results / "data")
    address = fingerprint(collection)
    chosen = tuple(dict.fromkeys(figures))
    jobs = plan(chosen, study, address)
    outcome = sweep(jobs, study.data, results, workers=workers, cluster=cluster)
    measured = read_results(study, address, jobs, results)
    return Reproduction(outcome, write_page(measured, chosen, collection.name, target))
