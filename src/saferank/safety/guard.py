r"""The guard: makes any ranker keep a promise, on every query, seen before or not.

It serves the new ranker with probability :math:`\lambda_q` and production else. Exposure is linear
in the mixture, so the worst loss is

.. math:: \eta(\kappa) = \sum_d \max(0, \lambda_q(\omega_0 - \omega) - (1-\kappa)\,\omega_0)

and :math:`\lambda_q` is the largest value that keeps it within the slack: exact, from scores alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.seeds import generator
from saferank.data import RankingData
from saferank.errors import require
from saferank.evaluation.scored_policies import (
    Deployed,
    Part,
    Policy,
    all_scores,
    check_policy,
    exposure_of,
    parts,
    query_shares,
    rank_weights,
    scores_of,
    total_weight,
)
from saferank.plackett_luce.sampling import sample_query
from saferank.policies.production import check_kind
from saferank.safety.losses import TOLERANCE, blind_share, mixing_shares
from saferank.safety.promise import Promise

_DEFAULT = Promise()


@dataclass(frozen=True)
class GuardReport:
    """How often the guard steps in, and what that costs."""

    promise: Promise
    queries: int
    share: float
    """Share of the queries where it steps in, and of the traffic."""
    traffic: float
    mixing: float
    """Share of the traffic that gets the new ranker."""
    cost: float | None = None
    """Estimated utility per session that the guard gives up, where gains are known."""
    gain: float | None = None
    """Estimated utility per session that the new ranker adds to production without the guard."""

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return asdict(self)

    def sentence(self) -> str:
        """The report in one sentence."""
        text = (
            f"The guard steps in on {self.share:.1%} of {self.queries:,} queries; "
            f"{self.mixing:.1%} of the traffic gets the new ranker"
        )
        if self.cost is not None and self.gain is not None:
            text += f"; it gives up {self.cost:.4g} of an estimated change of {self.gain:+.4g}"
        return text + "."


@dataclass(frozen=True, eq=False)
class Guard:
    """Mixes a new ranker with production so that every query keeps the promise.

    `new` and `production` are rankers, functions of the data, or (for one set of items) scores.
    `production_kind` says what production does with its scores: it samples, sorts, or (observed)
    does what no score tells. In the last case no exposure of it is known, and every query gets the
    share of the new ranker that keeps the promise whatever production does, 1 - keep + slack. The
    production arm is the ranking sorted by `production`'s scores, or drawn where it samples: at
    serving, give those of the list that production made.

    >>> import saferank as sr
    >>> items = sr.data.RankingData(np.eye(3), offsets=[0, 3])
    >>> guard = Guard([0.0, 1.0, 2.0], [2.0, 1.0, 0.0], sr.safety.Promise(0.9, 0.01))
    >>> guard.mixing(items).round(3)
    array([0.364])
    >>> guard.rank(items, 3, session="a") - guard.rank(items, 3, session="a")
    array([[0, 0, 0]])
    """

    new: Policy
    production: Policy | None = None
    promise: Promise = _DEFAULT
    weights: npt.ArrayLike | None = None
    deployed: Deployed = "sampled"
    production_kind: str | None = None
    """None: production is deployed as the new ranker is."""
    production_temperature: float = 1.0
    """Where production samples: it draws by its scores divided by this."""
    salt: str = "saferank"
    """Two guards with different salts choose independently of each other."""

    def __post_init__(self) -> None:
        if self.production_kind is not None:
            check_kind(self.production_kind)
        temperature = self.production_temperature
        require(0 < temperature < np.inf, "production_temperature", "positive", temperature)

    @property
    def blind(self) -> bool:
        """Whether production's exposures are not known: the share is then the same for all."""
        return self.production_kind in ("observed", "recorded")

    @property
    def production_deployed(self) -> Deployed:
        """How production's arm makes a ranking of its scores."""
        if self.production_kind is None:
            return self.deployed
        return "sampled" if self.production_kind in ("sampled", "uniform") else "sorted"

    def mixing(self, data: RankingData) -> Floats:
        """lambda of each query: the probability of serving the new ranker."""
        new, old, weights = self._checked(data)
        shares = np.empty(data.queries)
        for part in parts(data):
            shares[part.queries] = self._mixing(new, old, weights, part)[0]
        return shares

    def _checked(self, data: RankingData) -> tuple[Policy, Policy, Floats]:
        new = check_policy(self.new, data, "new")
        if self.production_kind == "uniform":
            return new, np.zeros(data.documents), rank_weights(self.weights, new, new)
        old = check_policy(self.production, data, "production")
        return new, old, rank_weights(self.weights, new, old)

    def _mixing(
        self, new: Policy, old: Policy, weights: Floats, part: Part
    ) -> tuple[Floats, Floats, Floats]:
        """lambda of each query of a part, and the exposures of its documents, new and old."""
        offsets = part.data.offsets
        omega = exposure_of(scores_of(new, part, "new"), weights, offsets, self.deployed)
        shown = scores_of(old, part, "production") / self.production_temperature
        omega0 = exposure_of(shown, weights, offsets, self.production_deployed)
        if self.blind:
            return (
                np.full(part.queries.size, blind_share(self.promise.keep, self.promise.slack)),
                omega,
                omega0,
            )
        allowed = self.promise.slack * total_weight(offsets, weights) + TOLERANCE * weights.max()
        return mixing_shares(omega, omega0, offsets, allowed, self.promise.keep), omega, omega0

    def exposure(self, data: RankingData) -> Floats:
        """Exposure of each document under the guarded policy."""
        new, old, weights = self._checked(data)
        mixed = np.empty(data.documents)
        for part in parts(data):
            shares, omega, omega0 = self._mixing(new, old, weights, part)
            own = flat.repeat_per_document(shares, part.data.offsets)
            mixed[part.positions] = own * omega + (1 - own) * omega0
        return mixed

    def serves_new(self, data: RankingData, session: str | int) -> npt.NDArray[np.bool_]:
        """Whether a session gets the new ranker, of each query: always the same answer."""
        query_ids = data.ids()[0]
        chance = np.array([_uniform(self.salt, session, query) for query in query_ids])
        return chance < self.mixing(data)

    def scores(self, data: RankingData, session: str | int) -> Floats:
        """The scores that a session is served by: for each query those of one of the rankers."""
        new, old, _ = self._checked(data)
        which = flat.repeat_per_document(self.serves_new(data, session), data.offsets)
        return np.where(
            which, all_scores(new, data), all_scores(old, data) / self.production_temperature
        )

    def rank(self, data: RankingData, k: int, session: str | int) -> Ints:
        """Positions of the first k documents of each query for one session; -1 past the end.

        A session that comes back sees the same ranking: the draw too depends only on its id.
        """
        ways = (self.deployed, self.production_deployed)
        scores = self.scores(data, session)
        if ways[0] == ways[1]:
            return draw(scores, data, k, session, ways[0], self.salt)
        new, old = (draw(scores, data, k, session, way, self.salt) for way in ways)
        return np.where(self.serves_new(data, session)[:, None], new, old)

    def report(
        self,
        data: RankingData,
        *,
        traffic: npt.ArrayLike | None = None,
        gain: npt.ArrayLike | None = None,
    ) -> GuardReport:
        """How often the guard steps in, and what it costs where gains of documents are known."""
        new, old, weights = self._checked(data)
        shares = query_shares(traffic, data.queries)
        gains = None if gain is None else flat.check_values("gain", gain, data.offsets)
        mixing, added = np.empty(data.queries), np.zeros(data.queries)
        for part in parts(data):
            own, omega, omega0 = self._mixing(new, old, weights, part)
            mixing[part.queries] = own
            if gains is not None:
                change = (omega - omega0) * gains[part.positions]
                added[part.queries] = flat.query_sums(change, part.data.offsets)
        return GuardReport(
            promise=self.promise,
            queries=data.queries,
            share=float(np.mean(mixing < 1)) if data.queries else 0.0,
            traffic=float(shares[mixing < 1].sum()),
            mixing=float(shares @ mixing),
            cost=None if gains is None else float(shares @ ((1 - mixing) * added)),
            gain=None if gains is None else float(shares @ added),
        )


def draw(
    scores: Floats,
    data: RankingData,
    k: int,
    session: str | int,
    deployed: Deployed = "sampled",
    salt: str = "saferank",
) -> Ints:
    """Positions of the first k documents of each query for one session; -1 past the end."""
    require(k >= 1, "k", "at least 1", k)
    if deployed == "sorted":
        return flat.top(scores, k, data.offsets)
    result = np.full((data.queries, 1, k), -1, dtype=np.int64)
    for query, name in enumerate(data.ids()[0]):
        first, last = data.offsets[query], data.offsets[query + 1]
        sample_query(scores[first:last], result[query], generator(0, "guard", salt, session, name))
        result[query][result[query] >= 0] += first
    return result[:, 0, :]


def _uniform(salt: str, session: str | int, query: object) -> float:
    """A number in [0, 1) that depends on nothing but the three words, on any machine."""
    text = "\x1f".join([salt, str(session), str(query)])
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)
