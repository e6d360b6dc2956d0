"""What is exported: a ranker, seen as trees or as layers, or the sentence why an engine cannot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from saferank._core.flat import Floats
from saferank.data.features import listed
from saferank.data.scaling import KINDS, Scaling
from saferank.errors import InputError, require
from saferank.learning import Ranker
from saferank.safety.guard import Guard
from saferank.scorers.networks import NetworkScorer
from saferank.scorers.tree_scorer import TreeScorer
from saferank.serving.export.raw_trees import RawTree, raw_trees


@dataclass(frozen=True, eq=False)
class Source:
    """A ranker on its way to another engine."""

    ranker: Ranker
    name: str
    """What engines that name their models are to call it."""
    k: int | None = None
    """Documents to draw, where rankings are drawn in the engine, too."""
    guard: Guard | None = None
    """The guard that was certified, where it is to be in the graph."""
    warnings: tuple[str, ...] = ()
    """Where what is exported is not what was found fit to be shipped, or not all of it."""

    def __post_init__(self) -> None:
        if self.ranker.scorer.kind == "module":
            raise InputError(
                "a module of your own is not exported: `torch.onnx` can, with `ranker.scaling` "
                "before it."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The features by name."""
        return self.ranker.features.names

    @property
    def forest(self) -> TreeScorer | None:
        """The trees, where the ranker has them."""
        scorer = self.ranker.scorer
        return scorer if isinstance(scorer, TreeScorer) else None

    @cached_property
    def layers(self) -> list[tuple[Floats, Floats]]:
        """Weights and bias of each layer of a network, on its scaled and encoded inputs."""
        assert isinstance(self.ranker.scorer, NetworkScorer)
        return self.ranker.scorer.layers()

    @cached_property
    def trees(self) -> list[RawTree]:
        """The trees on raw features."""
        assert self.forest is not None
        return raw_trees(self.forest.forest.trees, self.ranker.scaling)

    @cached_property
    def scaled_trees(self) -> list[RawTree]:
        """The trees on scaled features."""
        assert self.forest is not None
        plain = Scaling("none", self.ranker.scaling.width)
        return raw_trees(self.forest.forest.trees, plain)

    def needs_trees(self, engine: str) -> None:
        """Refuse a ranker without trees, and one that adds to production's score."""
        if self.forest is None:
            raise InputError(f"{engine} takes trees, and this ranker is {self._kind}.")
        self.needs_own_score(engine)
        self._needs_no_query(engine)

    def needs_layers(self, engine: str, *, most: int | None = None) -> list[tuple[Floats, Floats]]:
        """The layers on raw features; refused where the engine cannot do what comes before."""
        if self.forest is not None or (most is not None and len(self.layers) > most):
            raise InputError(f"{engine} takes a linear ranker, and this one is {self._kind}.")
        self.needs_own_score(engine)
        self._needs_no_query(engine)
        scaling = self.ranker.scaling
        if scaling.kind not in ("none", "standard"):
            raise InputError(
                f"{engine} cannot scale features by `{scaling.kind}`: learn with scaling "
                f"'standard' or 'none', or export to onnx."
            )
        encoding = scaling.encoding
        if encoding is not None and (encoding.marked or encoding.categories):
            places = sorted({*encoding.marked, *encoding.categories})
            names = listed(self.names[place] for place in places)
            raise InputError(
                f"{engine} has no missing values and no categories, which these features have: "
                f"{names}; export to onnx."
            )
        return self.layers

    def folded_layers(self, engine: str, *, most: int | None = None) -> list[tuple[Floats, Floats]]:
        """The layers with the scaling within the first of them."""
        (weights, bias), *rest = self.needs_layers(engine, most=most)
        scaling, wide = self.ranker.scaling, weights.astype(np.float64)
        if scaling.centre is None or scaling.spread is None:
            return [(wide, bias.astype(np.float64)), *rest]
        wide = wide / scaling.spread
        return [(wide, bias.astype(np.float64) - wide @ scaling.centre), *rest]

    def needs_own_score(self, engine: str) -> None:
        """Refuse a ranker that adds to production's score, which is known in an ONNX graph only."""
        if self.ranker.adds_production:
            raise InputError(
                f"this ranker adds to production's score, which {engine} does not have: export to "
                f"onnx, or give --correction for what is to be added."
            )

    def needs_numbers(self, engine: str) -> None:
        """Refuse splits on categories and on missing values, where an engine has neither."""
        used = {int(place) for tree in self.trees for place in tree.feature}
        features = [self.ranker.features.features[place] for place in sorted(used)]
        categories = [one.name for one in features if one.kind == "category"]
        if categories:
            raise InputError(f"{engine} has no categories, which these are: {listed(categories)}.")

    def needs_no_gaps(self, engine: str) -> None:
        """Refuse trees that learned where missing values go."""
        gaps = sorted(
            {int(f) for t in self.trees for f in t.feature[t.knows_missing]},
        )
        if gaps:
            names = listed(self.names[place] for place in gaps)
            raise InputError(
                f"{engine} takes a missing value for 0, and this ranker knows missing values of "
                f"{names}: fill them in before learning, or export to onnx or lightgbm."
            )

    def _needs_no_query(self, engine: str) -> None:
        kind = self.ranker.scaling.kind
        if KINDS[kind].within_query:
            raise InputError(
                f"{engine} sees one document at a time, and `{kind}` scales within a query: export "
                f"to onnx."
            )

    @property
    def _kind(self) -> str:
        kinds = {"trees": "made of trees", "mlp": "a network", "linear": "linear"}
        return kinds[self.ranker.scorer.kind]

    def only_correction(self) -> Source:
        """The same without production's score."""
        adds = self.ranker.adds_production
        require(adds, "correction", "of a ranker that adds to production's score", "another")
        sentence = (
            f"These scores are to be added to production's, divided by "
            f"{self.ranker.production_temperature:g}."
        )
        plain = replace(self.ranker, adds_production=False)
        return replace(self, ranker=plain, warnings=(*self.warnings, sentence))
