"""From a study, or several side by side, to figures, claims and page, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from saferank.errors import require
from saferank.experiments.learning_curves import FIGURES, plan
from saferank.experiments.results import Results, read_results
from saferank.experiments.study import Study, fingerprint, open_collection
from saferank.experiments.study_page import Written, write_columns, write_page
from saferank.experiments.sweep import Outcome, sweep


@dataclass(frozen=True)
class Reproduction:
    """How the jobs went, what they gave, and what was written."""

    outcome: Outcome
    results: Results
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

    Examples
    --------
    >>> import tempfile
    >>> import saferank as sr
    >>> study = sr.experiments.PRESETS["quick"].replace(
    ...     data="synthetic:small:20", sessions=(100,), seeds=1
    ... )
    >>> made = reproduce(study, tempfile.mkdtemp(), figures=[2], workers=1)
    >>> [place.name for place in made.written.figures]
    ['figure-2.svg']
    """
    target = Path(folder)
    results = target / "results"
    collection = open_collection(study.data, results / "data")
    address = fingerprint(collection)
    chosen = tuple(dict.fromkeys(figures))
    jobs = plan(chosen, study, address)
    outcome = sweep(jobs, study.data, results, workers=workers, cluster=cluster)
    measured = read_results(study, address, jobs, results)
    written = write_page(measured, chosen, collection.name, target)
    return Reproduction(outcome, measured, written)


@dataclass(frozen=True)
class Columns:
    """Studies side by side: each by its name, and the page and figures of all of them."""

    studies: dict[str, Reproduction]
    page: Path
    figures: tuple[Path, ...]


def reproduce_columns(
    studies: Sequence[Study],
    folder: str | Path,
    *,
    figures: Sequence[int] = FIGURES,
    workers: int | None = None,
    cluster: str | None = None,
) -> Columns:
    """Run several studies, and draw each figure with a column per collection, as in the paper.

    Every study has a folder of its own in `folder`, named after its collection, which is that of
    `reproduce` for it alone.

    Parameters
    ----------
    studies
        One per collection.
    folder
        Where the page of all, and the folders of each, go.
    figures
        Their numbers, of `FIGURES`.
    workers
        Processes; by default one per core.
    cluster
        Address of a Dask scheduler, instead of processes here.

    Returns
    -------
    Columns
        What each study gave, and what was written for all of them.

    See Also
    --------
    reproduce : one collection.

    Examples
    --------
    >>> import saferank as sr
    >>> small = sr.experiments.PRESETS["quick"]
    >>> [short_name(study.data) for study in (small, small.replace(data="synthetic:mslr:300"))]
    ['small-200', 'mslr-300']
    >>> reproduce_columns([small, small], "study")
    Traceback (most recent call last):
    saferank.errors.InputError: `data` must be collections of different names; got ...
    """
    names = [short_name(study.data) for study in studies]
    require(len(set(names)) == len(names) > 0, "data", "collections of different names", names)
    target, chosen = Path(folder), tuple(dict.fromkeys(figures))
    made = {
        name: reproduce(study, target / name, figures=chosen, workers=workers, cluster=cluster)
        for name, study in zip(names, studies, strict=True)
    }
    results = {name: reproduction.results for name, reproduction in made.items()}
    drawn = write_columns(results, chosen, target)
    return Columns(made, target / "index.html", drawn)


def short_name(data: str) -> str:
    """A collection's name as a folder: preset and queries, or the end of its path.

    >>> short_name("synthetic:mslr:2000"), short_name("/somewhere/MQ2008/Fold1")
    ('mslr-2000', 'MQ2008-Fold1')
    """
    if data.startswith("synthetic:"):
        return data.removeprefix("synthetic:").replace(":", "-")
    path = Path(data).resolve()
    fold = path.name.startswith("Fold") and path.parent.name
    return f"{path.parent.name}-{path.name}" if fold else path.name or "collection"
