"""Users: who turns what is shown into clicks; those of the paper, and those who break its model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Array, Floats
from saferank.clicks.models import ClickModel, position_bias, trust_bias
from saferank.errors import require


@dataclass(frozen=True, eq=False)
class Patience:
    """How likely users go on to the next rank after a click, and after none."""

    after_click: Floats
    after_skip: Floats

    def __post_init__(self) -> None:
        for name in ("after_click", "after_skip"):
            values = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            require(values.ndim == 1 and values.size >= 1, name, "one value per rank", values.shape)
            inside = bool(np.all((values >= 0) & (values <= 1)))
            require(inside, name, "in [0, 1]", values.tolist())
            object.__setattr__(self, name, values)
        same = self.after_skip.shape == self.after_click.shape
        require(same, "after_skip", f"{self.after_click.size} values", self.after_skip.size)


class Users(Protocol):
    """Anyone who looks at ranks from the first down and clicks, with a probability, what they see.

    Without `patience` every rank is looked at, so clicks are independent of each other given the
    ranking, and their counts are binomials.

    See Also
    --------
    cascade, IndependentUsers : users of this kind.

    Examples
    --------
    >>> import saferank as sr
    >>> users: Users = sr.clicks.USERS["cascade"](3)
    >>> users.ranks, users.patience is None
    (3, False)
    """

    @property
    def ranks(self) -> int:
        """K, the number of ranks that can be clicked."""

    @property
    def patience(self) -> Patience | None:
        """When users stop looking; None: never."""

    def probability(self, relevance: npt.ArrayLike) -> Floats:
        """P(click | looked at) of the documents (rows), in the data's order, at ranks (columns)."""


@dataclass(frozen=True)
class IndependentUsers:
    """Users with a rule of their own, clicking each rank without regard to the others.

    Parameters
    ----------
    ranks
        K, the number of ranks.
    rule
        P(click), documents x ranks, of relevance (one value per document).
    name
        What they are called.

    See Also
    --------
    adversarial : an example.

    Examples
    --------
    >>> curious = IndependentUsers(2, lambda relevance: np.full((np.size(relevance), 2), 0.3))
    >>> curious.probability([0.0, 1.0])
    array([[0.3, 0.3],
           [0.3, 0.3]])
    """

    ranks: int
    rule: Callable[[npt.ArrayLike], Floats]
    name: str = "users"

    @property
    def patience(self) -> None:
        """Every rank is looked at."""
        return None

    def probability(self, relevance: npt.ArrayLike) -> Floats:
        """P(click) of documents (rows) at ranks (columns)."""
        return self.rule(relevance)


@dataclass(frozen=True, eq=False)
class CascadeUsers:
    """Users whose clicks depend on earlier ones: after each rank they go on or leave."""

    attraction: ClickModel
    patience: Patience

    def __post_init__(self) -> None:
        ranks = self.attraction.ranks
        lengths = self.patience.after_click.size
        require(lengths == ranks, "patience", f"of {ranks} ranks", lengths)

    @property
    def ranks(self) -> int:
        """K, the number of ranks that can be clicked."""
        return self.attraction.ranks

    def probability(self, relevance: npt.ArrayLike) -> Floats:
        """P(click | looked at) of documents (rows) at ranks (columns)."""
        return self.attraction.probability(relevance)


def adversarial(model: ClickModel) -> IndependentUsers:
    r"""The paper's worst users: :math:`1 - (\alpha_k R + \beta_k)`.

    Parameters
    ----------
    model
        The click model that they turn around.

    Returns
    -------
    IndependentUsers
        Users for `simulate`.

    Examples
    --------
    >>> adversarial(ClickModel([0.5], [0.25])).probability([1.0])
    array([[0.25]])
    """
    return epsilon_adversarial(model, 1.0)


def epsilon_adversarial(model: ClickModel, epsilon: float) -> IndependentUsers:
    r"""Each click is turned into its opposite with probability epsilon: :math:`p + \epsilon(1-2p)`.

    >>> epsilon_adversarial(ClickModel([1.0], [0.0]), 0.1).probability([1.0])
    array([[0.9]])
    """
    require(0 <= epsilon <= 1, "epsilon", "in [0, 1]", epsilon)

    def rule(relevance: npt.ArrayLike) -> Floats:
        p = model.probability(relevance)
        return (1 - epsilon) * p + epsilon * (1 - p)

    return IndependentUsers(model.ranks, rule, f"adversarial with probability {epsilon:g}")


def noise(p: float = 0.5, k: int = 5) -> IndependentUsers:
    """Users who click anything with the same probability."""
    require(0 <= p <= 1, "p", "in [0, 1]", p)
    require(k >= 1, "k", "at least 1", k)

    def rule(relevance: npt.ArrayLike) -> Floats:
        return np.full((*np.shape(relevance), k), p)

    return IndependentUsers(k, rule, f"noise {p:g}")


def attacker(documents: Array, model: ClickModel | None = None, *, k: int = 5) -> IndependentUsers:
    """Someone who clicks chosen documents only: always, or as a model's users click relevant ones.

    `documents` is a mask over the data's documents.

    >>> attacker(np.array([True, False]), k=2).probability([0.0, 1.0])
    array([[1., 1.],
           [0., 0.]])
    """
    chosen = np.asarray(documents)
    require(chosen.dtype == np.bool_ and chosen.ndim == 1, "documents", "a mask", chosen.dtype.name)
    weights = np.ones(k) if model is None else model.exposure_weights

    def rule(relevance: npt.ArrayLike) -> Floats:
        shape = np.shape(relevance)
        require(shape == chosen.shape, "documents", f"a mask of shape {shape}", chosen.shape)
        return np.where(chosen[:, None], weights, 0.0)

    return IndependentUsers(weights.size, rule, "attacker")


def cascade(k: int = 5, *, stop: float = 1.0, noise: float = 0.0) -> CascadeUsers:
    """Users who look from the top and leave after a click with probability `stop`.

    They click with probability R, and what is not relevant with probability `noise`.

    Parameters
    ----------
    k
        Number of ranks.
    stop
        Probability of leaving after a click.
    noise
        Probability of a click on what is not relevant.

    Returns
    -------
    CascadeUsers
        Users for `simulate`.

    Examples
    --------
    >>> cascade(3, stop=0.5).ranks
    3
    """
    require(0 <= stop <= 1, "stop", "in [0, 1]", stop)
    return dependent_clicks(np.full(k, 1 - stop), noise=noise)


def dependent_clicks(after_click: npt.ArrayLike, *, noise: float = 0.0) -> CascadeUsers:
    """The dependent click model: after a click at rank k users go on with probability lambda_k.

    >>> dependent_clicks([0.6, 0.4, 0.2]).ranks
    3
    """
    going_on = np.asarray(after_click, dtype=np.float64)
    require(0 <= noise <= 1, "noise", "in [0, 1]", noise)
    attraction = ClickModel(np.full(going_on.shape, 1 - noise), np.full(going_on.shape, noise))
    return CascadeUsers(attraction, Patience(going_on, np.ones(going_on.shape)))


USERS: dict[str, Callable[[int], Users]] = {
    "trust": trust_bias,
    "position": position_bias,
    "adversarial": lambda k: adversarial(trust_bias(k)),
    "noise": lambda k: noise(0.5, k),
    "cascade": cascade,
    "dcm": lambda k: dependent_clicks(0.8 * np.arange(1, k + 1) ** -0.5),
}
"""Users by name, each made for K ranks."""
