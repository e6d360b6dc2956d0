"""A ranker: scaling and scorer together, what it was learned from, saved without running code."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
import pyarrow as pa
from scipy.special import expit

from saferank._core import storage
from saferank._core.display import html_summary
from saferank._core.files import atomic_folder, read_json, write_json
from saferank._core.flat import Floats, Ints, query_ranges, top
from saferank._core.records import convert
from saferank.data import RankingData, Scaling
from saferank.data.encoding import has_gaps
from saferank.data.features import FeatureSchema, listed
from saferank.data.frames import ArrowTable
from saferank.data.items.table_layout import Wanted
from saferank.data.items.tables import ItemsSource, read_items, read_rows
from saferank.data.matching import match_features
from saferank.data.ranking import Features
from saferank.errors import InputError, InputWarning, require
from saferank.learning.families import SCORERS, Networks, Scorer
from saferank.learning.provenance import Provenance, versions
from saferank.learning.ranked_lists import ranking_table
from saferank.plackett_luce import sample
from saferank.scorers.networks import ModuleFactory
from saferank.scorers.tree_names import as_tree_names
from saferank.scorers.tree_scorer import TreeScorer

LIGHTGBM = "lightgbm"
"""The method of a ranker that is a LightGBM file."""
FORMAT = 3
"""Format 1 has no names of features: it knows them by number. Up to 2, provenance is `card`."""
TOGETHER = 8192
"""Documents that are scaled and scored together, about."""
REGRESSION = "regression"
"""Folder of the regression within a ranker's."""
FILES = (
    "ranker.json", "scorer.safetensors", "scorer.txt", "assessment.json", "assessment-*.json",
    "report.html", f"{REGRESSION}/",
)  # fmt: skip
"""All that a ranker's folder may hold: what is saved here, and what is written beside it later."""


@dataclass(frozen=True, eq=False)
class Ranker:
    """Scores documents; its policy is Plackett-Luce over the scores.

    See Also
    --------
    learn, load : make one.

    Examples
    --------
    >>> import numpy as np
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=40, seed=0).train
    >>> model, shown = sr.clicks.trust_bias(), np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, shown, model, sessions=1000, seed=0)
    >>> settings = sr.learning.Settings(steps=20)
    >>> ranker = sr.learn(
    ...     items, counts, model, production=shown, scorer="linear", settings=settings
    ... )
    >>> ranker.rank(items, 3, mode="sort").shape
    (40, 3)
    """

    scorer: Scorer
    """From scaled features to one score per document."""
    scaling: Scaling
    """What features go through before."""
    provenance: Provenance
    """Where it comes from."""
    adds_production: bool = False
    """Whether the scorer corrects production's score, which the data must then carry."""
    regression: Ranker | None = None
    r"""The regression behind DM and DR, whose scores are logits of :math:`\hat R`; judging uses it
    with sessions that it has not seen."""
    production_temperature: float = 1.0
    """What production's score is divided by before the scorer's is added."""
    features: FeatureSchema = None  # type: ignore[assignment]
    """What it takes: names, kinds and categories; by default as many numbers without names."""

    def __post_init__(self) -> None:
        width = self.scaling.width
        if cast("FeatureSchema | None", self.features) is None:
            object.__setattr__(self, "features", FeatureSchema.numbered(width))
        require(self.features.width == width, "features", f"{width}", self.features.width)

    def _repr_html_(self) -> str:
        made = self.provenance
        promise = "none" if made.keep is None else f"keeps {made.keep:.0%}"
        return html_summary(
            f"Ranker: {made.method}",
            [
                ("scorer", type(self.scorer).__name__),
                ("features", f"{self.features.width}"),
                ("ranks", f"{len(made.weights)}"),
                ("sessions learned from", f"{made.sessions:,}"),
                ("promise", promise),
                ("seed", made.seed),
            ],
        )

    def relevance(self, data: RankingData) -> Floats | None:
        r""":math:`\hat R` of each document by the regression; None where the ranker has none."""
        return None if self.regression is None else expit(self.regression.scores(data))

    @property
    def k(self) -> int:
        """The number of ranks that it was learned for; `InputError` where it does not say."""
        length = len(self.provenance.weights)
        require(length > 0, "k", "given: this ranker does not say how many ranks it is for", None)
        return length

    def scores(self, data: RankingData | ArrowTable) -> Floats:
        """One score per document of the data, or per row of a table.

        Features are matched by name; a missing one is refused, and others are left out. A table
        (pandas, Polars, Arrow) has the columns of items: see `saferank.data.read_items`.
        """
        if not isinstance(data, RankingData):
            return self._row_scores(data)
        matched = self._matched(data)
        return self.score_matrix(matched.features, matched.offsets, data.production)

    def score_matrix(
        self, features: Features, offsets: Ints, production: Floats | None = None
    ) -> Floats:
        """The same of documents whose features are the ranker's own, in its order."""
        scores = self._own_scores(features, offsets)
        if not self.adds_production:
            return scores
        if production is None:
            raise InputError(
                "`production` scores must be with the items: this ranker adds to them."
            )
        return scores + production / self.production_temperature

    def _own_scores(self, features: Features, offsets: Ints) -> Floats:
        """The scorer's, some queries at a time: scaled features are never all there."""
        if len(features) <= TOGETHER:
            return self.scorer.scores(self.scaling.apply(features, offsets))
        scores = np.empty(len(features))
        for first, last in query_ranges(offsets, TOGETHER):
            cuts = offsets[first : last + 1]
            rows = slice(int(cuts[0]), int(cuts[-1]))
            scores[rows] = self.scorer.scores(self.scaling.apply(features[rows], cuts - cuts[0]))
            storage.release(features[rows])
        return scores

    def _row_scores(self, table: ArrowTable) -> Floats:
        schema = None if self.provenance.method == LIGHTGBM else self.features
        data, rows = read_rows(table, Wanted(schema=schema))
        for sentence in self.differences(data):
            warnings.warn(sentence, InputWarning, stacklevel=3)
        scores = np.empty(data.documents)
        scores[rows] = self.scores(data)
        return scores

    def _matched(self, data: RankingData) -> RankingData:
        """The data with the ranker's features; a LightGBM file has a spelling of its own."""
        named = as_tree_names(data, self.features) if self.provenance.method == LIGHTGBM else data
        return match_features(named, self.features)

    def read_items(
        self,
        source: ItemsSource,
        *,
        columns: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> RankingData:
        """Items for this ranker: as `saferank.data.read_items`, with its kinds and categories."""
        schema = None if self.provenance.method == LIGHTGBM else self.features
        return read_items(source, columns=columns, schema=schema, group=group)

    def differences(self, data: RankingData) -> list[str]:
        """What a user should know of data that is not as in training, one sentence each."""
        matched = self._matched(data)
        unknown = [] if data.schema.is_numbered else data.schema.unknown_to(self.features)
        gaps = has_gaps(matched.features)
        gaps[list(self._knows_gaps())] = False
        sentences = []
        if unknown and self.provenance.method != LIGHTGBM:
            sentences.append(
                f"The ranker does not know these columns, which are left out: {listed(unknown)}."
            )
        if gaps.any():
            names = listed(np.array(self.features.names)[gaps].tolist())
            taken = "0" if isinstance(self.scorer, TreeScorer) else "the mean of training"
            sentences.append(
                f"Missing values that training did not have are taken for {taken}: {names}."
            )
        return sentences

    def _knows_gaps(self) -> Iterable[int]:
        """Features with missing values that the ranker has learned from, or does not use."""
        if isinstance(self.scorer, TreeScorer):
            return self.scorer.knows_gaps()
        encoding = self.scaling.encoding
        return () if encoding is None else encoding.marked

    def fingerprint(self) -> str:
        """A name for what it computes: scorer, scaling, and whether production is added."""
        parts = [
            self.scorer.fingerprint(),
            self.scaling.to_dict(),
            self.adds_production,
            self.production_temperature,
            self.features.to_dict(),
        ]
        text = json.dumps(parts, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def ranking(
        self,
        data: RankingData | ArrowTable,
        k: int | None = None,
        *,
        mode: Literal["sample", "sort"] = "sort",
        seed: int = 0,
    ) -> pa.Table:
        """The first k documents of each query as a table: `query_id, doc_id, rank, score`.

        `k` is the number of ranks that the ranker was learned for unless given.
        """
        items = data if isinstance(data, RankingData) else self.read_items(data)
        length = self.k if k is None else k
        ranked = self.rank(items, length, mode=mode, seed=seed)
        return ranking_table(items, ranked, self.scores(items))

    def rank(
        self, data: RankingData, k: int, *, mode: Literal["sample", "sort"] = "sort", seed: int = 0
    ) -> Ints:
        """Positions of the first k documents of each query; -1 past the end of a list."""
        require(k >= 1, "k", "at least 1", k)
        require(mode in ("sample", "sort"), "mode", "'sample' or 'sort'", mode)
        scores = self.scores(data)
        if mode == "sort":
            return top(scores, k, data.offsets)
        return sample(scores, k, 1, seed, data.offsets)[:, 0, :]

    def save(self, folder: str | Path) -> None:
        """Write the ranker as a folder of safetensors and JSON, whole or not at all."""
        with atomic_folder(Path(folder), holds=FILES) as temporary:
            write_json(
                temporary / "ranker.json",
                {
                    "format": FORMAT,
                    "scorer": {"kind": self.scorer.kind, **self.scorer.save(temporary)},
                    "scaling": self.scaling.to_dict(),
                    "adds_production": self.adds_production,
                    "production_temperature": self.production_temperature,
                    "features": self.features.to_dict(),
                    "provenance": asdict(self.provenance),
                },
                "ranker",
            )
            if self.regression is not None:
                self.regression.save(temporary / REGRESSION)

    @classmethod
    def load(cls, folder: str | Path, *, module: ModuleFactory | None = None) -> Self:
        """Read a saved ranker, or a file of LightGBM's model text as a ranker of its trees.

        Parameters
        ----------
        folder
            What `Ranker.save` wrote, or a file that LightGBM saved.
        module
            Makes the user's own network, where the ranker has one.

        Returns
        -------
        Ranker
            The same bits as the one that was saved.

        Raises
        ------
        InputError
            Where the folder holds anything else; nothing in it is ever run.

        See Also
        --------
        learn : makes what is saved.

        Examples
        --------
        >>> import numpy as np
        >>> import saferank as sr
        >>> items = sr.data.synthetic("small", queries=40, seed=0).train
        >>> model, shown = sr.clicks.trust_bias(), np.zeros(items.documents)
        >>> counts = sr.clicks.simulate(items, shown, model, sessions=1000, seed=0)
        >>> settings = sr.learning.Settings(steps=20)
        >>> ranker = sr.learn(
        ...     items, counts, model, production=shown, scorer="linear", settings=settings
        ... )
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "run"
        >>> ranker.save(folder)
        >>> bool(np.array_equal(sr.load(folder).scores(items), ranker.scores(items)))
        True
        """
        if Path(folder).is_file():
            return cls._of_trees(Path(folder))
        return cls._load(Path(folder), module)

    @classmethod
    def _load(cls, folder: Path, module: ModuleFactory | None, *, nested: bool = True) -> Self:
        path = folder / "ranker.json"
        there = path.is_file()
        require(there, "ranker", "a saved ranker (a folder) or a LightGBM file", str(folder))
        record = read_json(path)
        try:
            readable = record["format"] in range(1, FORMAT + 1)
            require(readable, "format", f"at most {FORMAT}", record["format"])
            scorer = _load_scorer(folder, record["scorer"], module)
            scaling = Scaling.from_dict(record["scaling"])
            same = scaling.outputs == scorer.width
            require(same, "scaling", f"to the scorer's {scorer.width} features", scaling.outputs)
            provenance = Provenance.from_record(record)
            adds = convert(bool, record["adds_production"], "adds_production")
            own = folder / REGRESSION
            # a regression has none of its own: hostile folders cannot nest without end
            regression = cls._load(own, module, nested=False) if nested and own.is_dir() else None
            temperature = convert(float, record.get("production_temperature", 1.0), "temperature")
            require(temperature > 0, "production_temperature", "positive", temperature)
            features = None
            if record["format"] > 1:
                features = FeatureSchema.from_dict(record["features"])
            return cls(scorer, scaling, provenance, adds, regression, temperature, features)  # type: ignore[arg-type]
        except (KeyError, TypeError) as error:
            raise InputError(f"`{path}` must be a ranker's record; {error!r}.") from error

    @classmethod
    def _of_trees(cls, path: Path) -> Self:
        trees = TreeScorer.read(path)
        provenance = Provenance(
            LIGHTGBM, {"scorer": "trees"}, 0, 0, [], None, "unknown", versions=versions()
        )
        return cls(trees, Scaling("none", trees.width), provenance, features=trees.features)


def _load_scorer(folder: Path, record: dict[str, Any], module: ModuleFactory | None) -> Scorer:
    kind = record["kind"]
    if kind == "module":
        return Networks().load(folder, record, module)
    require(
        isinstance(kind, str) and kind in SCORERS, "scorer", f"one of {', '.join(SCORERS)}", kind
    )
    return SCORERS[kind].load(folder, record, module)
