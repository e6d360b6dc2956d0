"""Click models: how likely a click is, given relevance and rank."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from saferank._core.files import read_json, write_json
from saferank._core.flat import Floats, require_each
from saferank._core.records import convert
from saferank.counts.arrays import MOST_RANKS
from saferank.errors import InputError, require

_PAPER_ALPHA = (0.35, 0.53, 0.55, 0.54, 0.52)
_PAPER_BETA = (0.65, 0.26, 0.15, 0.11, 0.08)


@dataclass(frozen=True, eq=False)
class ClickModel:
    r"""Clicks that depend on a document's relevance and its rank only; none beyond rank K.

    .. math:: P(C = 1 \mid d, k) = \alpha_k P(R = 1 \mid d) + \beta_k

    >>> model = ClickModel(alpha=[0.5, 0.25], beta=[0.5, 0.25])
    >>> model.probability([0.0, 1.0])
    array([[0.5 , 0.25],
           [1.  , 0.5 ]])
    """

    alpha: Floats
    """How much relevance adds to the click probability at each rank: K values."""
    beta: Floats
    """Click probability of what is not relevant, at each rank; alpha + beta is at most 1."""
    doubt: str = ""
    """What `saferank bias` says against relying on this model, in words; empty: nothing."""
    feedback: str = ""
    """What it was fitted to (`Feedback.text`: click, purchase, ...); empty: unknown."""

    if TYPE_CHECKING:  # whatever is an array is taken

        def __init__(
            self, alpha: npt.ArrayLike, beta: npt.ArrayLike, doubt: str = "", feedback: str = ""
        ) -> None: ...

    def __post_init__(self) -> None:
        alpha, beta = _probabilities("alpha", self.alpha), _probabilities("beta", self.beta)
        require(beta.shape == alpha.shape, "beta", f"{alpha.size} values, as alpha", beta.size)
        total = alpha + beta
        require(bool(np.all(total <= 1 + 1e-12)), "alpha + beta", "at most 1", total.tolist())
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "beta", beta)

    @property
    def ranks(self) -> int:
        """K, the number of ranks that can be clicked."""
        return int(self.alpha.size)

    @property
    def exposure_weights(self) -> Floats:
        """alpha + beta: the click probability of a relevant document at each rank."""
        return self.alpha + self.beta

    @property
    def trust_spread(self) -> float:
        r""":math:`1 + \max_k \beta_k/\alpha_k`: how much trust widens a session's score.

        Infinite where users click for trust alone: :math:`\alpha_k = 0 < \beta_k`.
        """
        trusted = self.beta > 0
        with np.errstate(divide="ignore"):
            ratio = self.beta[trusted] / self.alpha[trusted]
        return 1 + float(ratio.max(initial=0.0))

    @property
    def patience(self) -> None:
        """Every rank is looked at: whether one is clicked says nothing of the others."""
        return None

    def probability(self, relevance: npt.ArrayLike) -> Floats:
        """P(click) of documents (rows) at ranks (columns)."""
        relevant = np.asarray(relevance, dtype=np.float64)
        return np.clip(relevant[..., None] * self.alpha + self.beta, 0.0, 1.0)

    def at(self, ranks: int) -> ClickModel:
        """The model of the first `ranks` ranks; beyond its own K clicks never happen."""
        require(ranks >= 1, "ranks", "at least 1", ranks)
        missing = max(0, ranks - self.ranks)
        return ClickModel(
            np.pad(self.alpha, (0, missing))[:ranks],
            np.pad(self.beta, (0, missing))[:ranks],
            self.doubt,
            self.feedback,
        )

    def to_dict(self) -> dict[str, Any]:
        """The model for JSON."""
        record = {"alpha": self.alpha.tolist(), "beta": self.beta.tolist()}
        said = {"doubt": self.doubt, "feedback": self.feedback}
        return record | {name: text for name, text in said.items() if text}

    @classmethod
    def from_dict(cls, record: Any) -> ClickModel:
        """The model of a JSON record, which may say more than the model needs."""
        if not isinstance(record, dict) or not {"alpha", "beta"} <= record.keys():
            raise InputError("A click model must be a JSON object with `alpha` and `beta`.")
        alpha, beta = (convert(list[float], record[name], name) for name in ("alpha", "beta"))
        feedback = str(convert(str, record.get("feedback", ""), "feedback"))
        return cls(np.array(alpha), np.array(beta), _doubt(record), feedback)

    def save(self, path: str | Path) -> None:
        """Write the model as JSON (`bias.json`)."""
        write_json(Path(path), self.to_dict(), "click model")

    @classmethod
    def load(cls, path: str | Path) -> ClickModel:
        """Read a model from a `bias.json`."""
        return cls.from_dict(read_json(Path(path), limit=1 << 20))

    def __repr__(self) -> str:
        def text(values: Floats) -> str:
            return "[" + ", ".join(f"{value:.4g}" for value in values) + "]"

        return f"ClickModel(alpha={text(self.alpha)}, beta={text(self.beta)})"


def _doubt(record: dict[str, Any]) -> str:
    """What a record (of the model, or a whole `bias.json`) says against the model."""
    misfit, identifiability = (record.get(name) for name in ("misfit", "identifiability"))
    if isinstance(misfit, dict) and misfit.get("found") is True:
        size = convert(float, misfit.get("size"), "misfit.size")
        return (
            f"the click model is known to misfit (`saferank bias` found click probabilities "
            f"typically {size:.2g} away from it)"
        )
    if isinstance(identifiability, dict) and identifiability.get("identified") is False:
        return (
            "the click model was fitted through features, as production shows each document at one "
            "rank, and nothing in this log can check it"
        )
    return str(convert(str, record.get("doubt", ""), "doubt"))


def position_bias(k: int = 5, eta: float = 1.0) -> ClickModel:
    r"""Users who look at rank j with probability :math:`j^{-\eta}` and click what is relevant.

    Parameters
    ----------
    k
        Number of ranks.
    eta
        How steeply attention falls.

    Returns
    -------
    ClickModel
        alpha = j ** -eta and beta = 0, shape (k,) each.

    Examples
    --------
    >>> position_bias(3)
    ClickModel(alpha=[1, 0.5, 0.3333], beta=[0, 0, 0])
    """
    require(k >= 1, "k", "at least 1", k)
    require(bool(np.isfinite(eta)) and eta >= 0, "eta", "at least 0", eta)
    return ClickModel(np.arange(1, k + 1, dtype=np.float64) ** -eta, np.zeros(k))


def trust_bias(k: int = 5) -> ClickModel:
    r"""The paper's users, who also click what is not relevant because it stands high.

    Its five ranks as measured by Agarwal et al. (2019); beyond them the curves that these follow,
    :math:`\alpha_j + \beta_j = j^{-0.32}` and :math:`\beta_j = 0.65\, j^{-1.3}`.

    Parameters
    ----------
    k
        Number of ranks.

    Returns
    -------
    ClickModel
        alpha and beta, shape (k,) each.

    Examples
    --------
    >>> trust_bias(2)
    ClickModel(alpha=[0.35, 0.53], beta=[0.65, 0.26])
    """
    require(k >= 1, "k", "at least 1", k)
    rank = np.arange(1, k + 1, dtype=np.float64)
    beta = 0.65 * rank**-1.3
    alpha = rank**-0.32 - beta
    published = min(k, len(_PAPER_ALPHA))
    alpha[:published], beta[:published] = _PAPER_ALPHA[:published], _PAPER_BETA[:published]
    return ClickModel(alpha, beta)


def blend(model: ClickModel, other: ClickModel, share: float) -> ClickModel:
    """Between two models: what a learner believes who is wrong by some share.

    >>> blend(ClickModel([1.0], [0.0]), ClickModel([0.5], [0.5]), 0.5)
    ClickModel(alpha=[0.75], beta=[0.25])
    """
    require(0 <= share <= 1, "share", "in [0, 1]", share)
    require(other.ranks == model.ranks, "other", f"of {model.ranks} ranks", other.ranks)
    keep = 1 - share
    return ClickModel(
        keep * model.alpha + share * other.alpha, keep * model.beta + share * other.beta
    )


def relevance(labels: npt.ArrayLike, highest: float) -> Floats:
    """P(R = 1) of graded documents: the grade as a share of the collection's highest.

    Parameters
    ----------
    labels
        Grades, one per document.
    highest
        The collection's highest grade.

    Returns
    -------
    ndarray
        One value in [0, 1] per document.

    Examples
    --------
    >>> relevance([0, 1, 4], highest=4)
    array([0.  , 0.25, 1.  ])
    """
    grades = np.asarray(labels, dtype=np.float64)
    require(bool(np.isfinite(highest)) and highest > 0, "highest", "positive", highest)
    inside = (grades >= 0) & (grades <= highest)
    require_each(inside, "labels", f"in 0..{highest:g}, the highest grade", grades)
    return grades / highest


def _probabilities(name: str, values: npt.ArrayLike) -> Floats:
    try:
        given = np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise InputError(f"`{name}` must be numbers; got {values!r}.") from error
    require(given.dtype.kind in "iuf" or not given.size, name, "numbers", values)
    array = np.ascontiguousarray(given, dtype=np.float64)
    require(array.ndim == 1 and array.size >= 1, name, "one value per rank", array.shape)
    require(array.size <= MOST_RANKS, name, f"of at most {MOST_RANKS:,} ranks", array.size)
    inside = bool(np.all((array >= 0) & (array <= 1)))
    require(inside, name, "in [0, 1]", array.tolist())
    return array
