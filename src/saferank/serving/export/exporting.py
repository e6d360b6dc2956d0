"""Export a ranker, checked: the file is written only if its engine's rule gives the same scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from saferank._core.files import atomic_file, atomic_folder, check_file, check_folder
from saferank._core.flat import Floats, Ints
from saferank._core.seeds import generator
from saferank.data import RankingData
from saferank.data.ranking import Features
from saferank.errors import EngineError, require
from saferank.evaluation import Deployed
from saferank.serving.export.lightgbm_files import LightGBMJson, LightGBMText
from saferank.serving.export.linear import Linear
from saferank.serving.export.mlflow_folder import FILES, MlflowFolder
from saferank.serving.export.onnx_target import Onnx
from saferank.serving.export.parity import SUFFIX, Parity
from saferank.serving.export.probing import lists, probe
from saferank.serving.export.ranklib import RankLib
from saferank.serving.export.solr import Solr
from saferank.serving.export.source import Source
from saferank.serving.export.target import Target
from saferank.serving.export.xgboost_json import XGBoostJson
from saferank.serving.rankings import Serving

TARGETS: Final[dict[str, Target]] = {
    "onnx": Onnx(),
    "lightgbm": LightGBMText(),
    "lightgbm-json": LightGBMJson(),
    "xgboost-json": XGBoostJson(),
    "ranklib": RankLib(),
    "solr": Solr(),
    "linear": Linear(),
    "mlflow": MlflowFolder(),
}
ROWS: Final = 10_000
TOLERANCE: Final = 1e-6
RANKED: Final = ("onnx", "mlflow")
"""Targets that can hold more than scores: production's as an input, drawing, the guard."""


@dataclass(frozen=True)
class EngineCheck:
    """How far the scores of one engine are from the ranker's."""

    engine: str
    largest_difference: float
    """As a share of the sizes that a score is the sum of, where these are above 1."""
    rows_apart: int
    """Rows whose scores differ by more than their tolerance."""


@dataclass(frozen=True)
class ExportReport:
    """What was exported or checked, and how near its scores are."""

    target: str
    path: str
    parity: str
    rows: int
    checks: tuple[EngineCheck, ...]
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every row has its score, by every engine."""
        return all(check.rows_apart == 0 for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return {**asdict(self), "holds": self.holds}

    def sentences(self) -> list[str]:
        """The report for people."""
        sentences = [
            f"{check.engine}: {self.rows - check.rows_apart:,} of {self.rows:,} rows as the ranker "
            f"scores them; largest difference {check.largest_difference:.2g}."
            for check in self.checks
        ]
        return [*sentences, *self.notes]


def export(
    run: str | Path,
    to: str,
    output: str | Path,
    *,
    sample: bool = False,
    guard: bool = False,
    k: int | None = None,
    correction: bool = False,
    rows: int = ROWS,
    seed: int = 0,
) -> ExportReport:
    """Write a saved ranker for another engine, and a parity file beside it.

    Parameters
    ----------
    run
        Folder of a ranker, or a LightGBM file.
    to
        One of `TARGETS`; `lightgbm` with an output that ends in `.json` is `lightgbm-json`.
    sample, guard, k
        For ONNX: draw rankings of `k` documents in the graph, with the guard that was certified.
    correction
        Of a ranker that adds to production's score: what is added, alone.
    rows, seed
        Rows of the parity file, and what they are drawn with.

    Returns
    -------
    ExportReport
        Where it was written, and how near the scores of each engine are.

    Raises
    ------
    InputError
        Where the engine cannot express the ranker.
    EngineError
        Where the scores of what was written are not the ranker's; nothing is left then.

    Examples
    --------
    >>> import tempfile
    >>> from saferank.scorers.tree_text import Forest
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "production.txt").write_text(Forest(("bm25", "age"), ("none",) * 2).text())
    >>> report = export(folder / "production.txt", "ranklib", folder / "model.txt", rows=100)
    >>> report.holds, report.sentences()[0]
    (True, "RankLib's rule: 100 of 100 rows as the ranker scores them; largest difference 0.")
    """
    path = Path(output)
    name = "lightgbm-json" if to == "lightgbm" and path.suffix == ".json" else to
    require(name in TARGETS, "to", f"one of {', '.join(TARGETS)}", to)
    more = sample or guard
    require(not more or name in RANKED, "--sample and --guard", "for onnx and mlflow", to)
    alone = not (correction and more)
    require(alone, "--correction", "without --sample and --guard: it is no policy", to)
    require(1 <= rows <= 10**6, "rows", "in 1..1000000", rows)
    check_file(parity_path(path), kind="parity")
    source = _source(run, path, sample=sample, guard=guard, k=k)
    source = source.only_correction() if correction else source
    target = TARGETS[name]
    with _place(target, path) as temporary:
        notes = [*source.warnings, *target.write(source, temporary)]
        parity = make_parity(source, name, rows, seed)
        checks = compare(target, temporary, parity)
        for check in checks:
            if check.rows_apart:
                raise EngineError(
                    f"`{path}` was not written: {check.rows_apart:,} of {parity.rows:,} rows are "
                    f"scored otherwise by {check.engine}, by up to {check.largest_difference:.2g}."
                )
        parity.write(parity_path(path))
    return ExportReport(name, str(path), str(parity_path(path)), parity.rows, checks, tuple(notes))


def check_export(path: str | Path) -> ExportReport:
    """Run a parity file again on the export that it is of, which lies beside it.

    Parameters
    ----------
    path
        The export, or its parity file; neither need be to be trusted.

    Returns
    -------
    ExportReport
        How near the scores of each engine are; `holds` if all are near enough.

    Examples
    --------
    >>> check_export("not-there.onnx")
    Traceback (most recent call last):
    saferank.errors.InputError: `export` must be a file that `saferank export` wrote; ...
    """
    given = Path(path)
    model = Path(str(given).removesuffix(SUFFIX))
    require(model.exists(), "export", "a file that `saferank export` wrote", str(model))
    parity = Parity.read(parity_path(model))
    require(parity.target in TARGETS, "target", f"one of {', '.join(TARGETS)}", parity.target)
    checks = compare(TARGETS[parity.target], model, parity)
    return ExportReport(parity.target, str(model), str(parity_path(model)), parity.rows, checks)


def parity_path(path: Path) -> Path:
    """Where the parity file of an export lies."""
    return path.with_name(path.name + SUFFIX)


def compare(target: Target, path: Path, parity: Parity) -> tuple[EngineCheck, ...]:
    """The scores of each engine beside those of the parity file."""
    checks = []
    for engine, scores in target.scores(path, parity).items():
        require(scores.shape == parity.scores.shape, engine, "one score per row", scores.shape)
        away = np.abs(scores - parity.scores)
        apart = ~(away <= parity.tolerance)  # also what is not a number
        largest = float((away / parity.tolerance).max(initial=0.0)) * TOLERANCE
        checks.append(EngineCheck(engine, largest, int(apart.sum())))
    return tuple(checks)


@np.errstate(over="ignore")  # extremes may be infinite once they are scaled
def make_parity(source: Source, name: str, rows: int, seed: int = 0) -> Parity:
    """Rows that try an export, and what the ranker says of them."""
    target, ranker = TARGETS[name], source.ranker
    offsets = lists(rows, seed)
    rng = generator(seed, "parity")
    features = probe(source, rows, seed, missing=target.has_missing, nearest=target.nearest)
    production = rng.normal(size=rows)
    data = RankingData(features, offsets, production=production, schema=ranker.features)
    scores = ranker.scores(data) - target.constant(source)
    extra: dict[str, Any] = {}
    if ranker.adds_production or source.guard is not None:
        extra["production"] = production
    if source.k is not None:
        extra |= {"k": source.k, "uniform": np.clip(rng.random(rows), 1e-12, 1 - 1e-12)}
    if source.guard is not None:
        extra |= _of_guard(source, data, rng)
    tolerance = _tolerance(source, target, features, offsets, scores)
    return Parity(name, source.names, features, offsets, scores, tolerance, **extra)


def _of_guard(source: Source, data: RankingData, rng: np.random.Generator) -> dict[str, Any]:
    guard = source.guard
    assert guard is not None
    share = guard.mixing(data)
    chance = rng.random(data.queries)
    near = np.abs(chance - share) < 1e-3  # where rounding could decide
    chance[near] = np.where(share[near] > 0.5, 0.0, 0.999)
    shown = "uniform" if guard.production_kind == "uniform" else guard.production_deployed
    return {
        "share": share, "chance": chance, "kinds": (guard.deployed, shown),
        "temperature": guard.production_temperature,
    }  # fmt: skip


def _tolerance(
    source: Source, target: Target, features: Features, offsets: Ints, scores: Floats
) -> Floats:
    """A millionth of a score, or of what an engine adds up to it in single precision."""
    size = np.abs(scores)
    if source.forest is None:
        inputs = source.ranker.scaling.apply(features, offsets)
        size = np.abs(inputs.astype(np.float64))
        for weights, bias in source.layers:
            size = size @ np.abs(weights.T.astype(np.float64)) + np.abs(bias)
        size = size[:, 0]
    elif target.single:
        size = np.full(len(features), sum(np.abs(t.leaf_value).max() for t in source.trees))
    tolerance: Floats = TOLERANCE * np.maximum(size, 1.0)
    return tolerance


def _source(run: str | Path, path: Path, *, sample: bool, guard: bool, k: int | None) -> Source:
    drawn: Deployed | None = "sampled" if sample and not guard else None
    serving = Serving.of_run(run, guard=guard, deployed=drawn)
    ranks = None
    if sample or guard:
        ranks = serving.ranker.k if k is None else k
        require(1 <= ranks <= 10**6, "k", "at least 1", ranks)
    else:
        require(k is None, "k", "given with --sample or --guard", k)
    made = serving.guarded(None) if guard else None
    return Source(serving.ranker, path.stem, ranks, made, tuple(serving.warnings()))


@contextmanager
def _place(target: Target, path: Path) -> Iterator[Path]:
    """Where to write: a file or a folder that becomes `path` if the block ends well."""
    if target.is_folder:
        check_folder(path, FILES)
        with atomic_folder(path, holds=FILES) as temporary:
            yield temporary
        return
    check_file(path)
    with atomic_file(path) as temporary:
        yield temporary
