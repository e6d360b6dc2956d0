"""`Loop`: rounds of serving, logging, learning and deciding, kept in a folder.

A candidate of round r is learned from all sessions of the rounds before and from those to learn
from of round r; only the others of round r judge it. So no session ever judged what it taught,
and none is wasted.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from saferank._core.files import read_json, write_json
from saferank._core.flat import Ints
from saferank._core.records import from_dict
from saferank._core.seeds import derive
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.counts.sketch import Sketch
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.learning import Ranker, learn, load
from saferank.policies import ProductionPolicy, mix_policies
from saferank.rounds.promised import Against, promise_after
from saferank.rounds.round_files import read_policy, read_round, save_policy, save_round
from saferank.rounds.steps import Candidate, Step, take_step
from saferank.safety.drawing import SALT, chances, rank_by_table
from saferank.safety.examination import Examination
from saferank.safety.independence import SOME
from saferank.safety.promise import Promise
from saferank.safety.rule import Rule

_STATE = "loop.json"
FORMAT = 1


@dataclass(frozen=True)
class Plan:
    """What a loop goes by; it does not change from round to round."""

    promise: Promise
    against: Against
    method: str
    items: str
    """Fingerprint of the items."""
    click_model: dict[str, Any]
    tolerance: float
    seed: int


@dataclass(frozen=True)
class Done:
    """What came of a round."""

    replaced: bool
    sentence: str
    sessions: int
    counts: str = ""
    """Fingerprint of the counts."""
    sketch: dict[str, Any] | None = None
    """A sample of the sessions' ids, where the log had them."""


@dataclass(frozen=True, eq=False)
class Loop:
    """Many rounds with a promise: state on disk, resumable.

    `served` is the policy to serve now; log what it shows, and give the counts to `add`, which
    learns a candidate, judges it, and replaces what is served only by what was certified.

    Examples
    --------
    >>> import tempfile
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=40, seed=0).train
    >>> users, shown = sr.clicks.trust_bias(), np.zeros(items.documents)
    >>> loop = Loop.start(tempfile.mkdtemp(), items, users, production=shown)
    >>> counts = sr.clicks.simulate(items, shown, users, sessions=20_000, seed=0)
    >>> options = {"scorer": "linear", "settings": sr.learning.Settings(steps=30)}
    >>> loop = loop.add(counts, **options)
    >>> loop.rounds[0].replaced, loop.promised
    (True, Promise(keep=0.9, slack=0.01))
    """

    folder: Path
    """Where its state is."""
    items: RankingData
    """Queries and documents of all rounds."""
    plan: Plan
    """Promise, method and confidence, the same in every round."""
    production: ProductionPolicy
    """The first production."""
    start_scores: np.ndarray
    """Scores of the first production, which learning starts at."""
    rounds: tuple[Done, ...] = ()
    """What came of each round so far."""

    @classmethod
    def start(
        cls,
        folder: str | Path,
        items: RankingData,
        click_model: ClickModel,
        *,
        production: Ranker | np.ndarray,
        kind: str = "sampled",
        promise: Promise | None = None,
        against: Against = "first",
        method: str = "prpo",
        tolerance: float = 0.0,
        seed: int = 0,
    ) -> Loop:
        """Begin in a folder that is empty or not there yet.

        Parameters
        ----------
        folder
            Where the state is kept.
        items
            Queries and documents; with their groups where the promise has floors for groups.
        click_model
            What a click means.
        production
            The first production: a ranker, or scores, one per document.
        kind
            What it does with its scores: "sampled" (of a temperature other than 1 give scores
            divided by it) or "sorted".
        promise
            What every query keeps in every round.
        against
            "first": against the first production, however many rounds; "last": against what was
            served before (shares multiply).
        method
            How candidates are learned.
        tolerance
            Share of the clicks that a replacement may lose.
        seed
            Of every draw.

        Returns
        -------
        Loop
            Without rounds; the first production is served.
        """
        place = Path(folder)
        promise = promise or Promise()
        require(not (place / _STATE).exists(), "folder", "without a loop: Loop.open", str(place))
        empty = not place.exists() or (place.is_dir() and not any(place.iterdir()))
        require(empty, "folder", "empty, or not there yet", str(place))
        require(kind in ("sampled", "sorted"), "kind", "sampled or sorted", kind)
        require(against in ("first", "last"), "against", "first or last", against)
        named = items.groups is not None or not promise.has_floors
        require(named, "items", "with groups, as the promise has floors for them", repr(items))
        scores = production.scores(items) if isinstance(production, Ranker) else production
        values = np.asarray(scores, dtype=np.float64)
        make = ProductionPolicy.sampled if kind == "sampled" else ProductionPolicy.sorted
        plan = Plan(
            promise, against, method, items.fingerprint(), click_model.to_dict(), tolerance, seed
        )
        loop = cls(place, items, plan, make(values, items.offsets), values)
        place.mkdir(parents=True, exist_ok=True)
        save_policy(place / "served-000.safetensors", loop.production, click_model.ranks)
        write_json(
            place / _STATE,
            {"format": FORMAT, "kind": kind, "scores": values.tolist(), "plan": asdict(plan)},
        )
        return loop

    @classmethod
    def open(cls, folder: str | Path, items: RankingData) -> Loop:
        """Go on with a loop that was begun, also after it was killed in the middle of a round."""
        place = Path(folder)
        record = read_json(place / _STATE)
        try:
            plan = from_dict(Plan, record["plan"], "plan")
            kind, values = record["kind"], np.asarray(record["scores"], dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{str(place / _STATE)!r} is no loop: {error!r}.") from error
        same = plan.items == items.fingerprint()
        require(same, "items", "those that the loop was begun with", f"others: {items!r}")
        make = ProductionPolicy.sorted if kind == "sorted" else ProductionPolicy.sampled
        loop = cls(place, items, plan, make(values, items.offsets), values)
        rounds: list[Done] = []
        while (place / f"round-{len(rounds) + 1:03}.json").is_file():
            done = read_json(place / f"round-{len(rounds) + 1:03}.json", limit=1 << 20)
            done.pop("written_by", None)
            rounds.append(from_dict(Done, done, "round"))
        return replace(loop, rounds=tuple(rounds))

    @property
    def click_model(self) -> ClickModel:
        """What a click means."""
        return ClickModel.from_dict(self.plan.click_model)

    @property
    def promised(self) -> Promise:
        """What holds against the first production now, for every query and any relevance."""
        replaced = sum(done.replaced for done in self.rounds)
        return promise_after(self.plan.promise, replaced, self.plan.against)

    @property
    def served(self) -> ProductionPolicy:
        """The policy to serve in the round to come."""
        return self._served(len(self.rounds))

    def rank(self, session: str | int, salt: str = SALT) -> Ints:
        """What to show in a session: a ranking of every query, drawn from the policy `served`.

        Which one is a hash of session and query, the same on any machine. Over sessions each
        document has the probability at each rank that the round is judged by.

        Parameters
        ----------
        session
            The session's id.
        salt
            Another one gives other draws.

        Returns
        -------
        ndarray
            Positions of documents, queries x ranks of the click model; -1 past the end.
        """
        k, offsets = self.click_model.ranks, self.items.offsets
        chance = chances(self.items, salt, session, 1 + k)
        table = self.served.rank_probabilities(k)
        return rank_by_table(table, self.start_scores, offsets, chance, k)

    def add(self, counts: Counts, **options: Any) -> Loop:
        """End a round: keep its counts, learn a candidate, judge it, and replace or not.

        A round that was killed goes on when the same counts are added again.

        Parameters
        ----------
        counts
            The log of the policy that was `served`, in parts to learn from and to judge by.
        **options
            Parts of the method's recipe, as `learn` takes them.

        Returns
        -------
        Loop
            With one round more.

        Raises
        ------
        InputError
            Among others where sessions of this round were in an earlier one, as far as equal
            counts or samples of the sessions' ids tell.
        """
        number = len(self.rounds) + 1
        self._check_round(counts)
        kept = self.folder / f"counts-{number:03}.safetensors"
        if not kept.is_file():
            save_round(kept, counts)
        else:  # the round was killed, and goes on
            same = self._counts(number).fingerprint() == counts.fingerprint()
            require(same, "counts", "those that this round was begun with", repr(counts))
        ranker = self._candidate(number, options)
        step = self._judge(ranker, number)
        k = self.click_model.ranks
        policy = self.served
        if step.replace:
            table = self._as_served(ranker).table(self.items)
            policy = ProductionPolicy.recorded(table, self.items.offsets)
        save_policy(self.folder / f"served-{number:03}.safetensors", policy, k)
        sample = None if counts.sketch is None else counts.sketch.to_dict()
        done = Done(step.replace, step.sentence, counts.total, counts.fingerprint(), sample)
        write_json(self.folder / f"round-{number:03}.json", asdict(done))
        return replace(self, rounds=(*self.rounds, done))

    # -- the parts of a round --------------------------------------------------------------------

    def _check_round(self, counts: Counts) -> None:
        """Refuse what a round cannot be made of: without parts, of purchases, or seen before."""
        k, offsets = self.click_model.ranks, self.items.offsets
        fits = counts.ranks == k and np.array_equal(counts.offsets, offsets)
        of_these = f"of the loop's items ({self.items!r}) and {k} ranks"
        require(fits, "counts", of_these, repr(counts))
        require(counts.part("judge").total > 0, "counts", "with sessions to judge by", repr(counts))
        what = counts.feedback.noun
        require(counts.feedback.is_clicks, "counts", "of clicks, as the click model is", what)
        for number, done in enumerate(self.rounds, start=1):
            again = done.counts == counts.fingerprint()
            if not again and done.sketch is not None and counts.sketch is not None:
                shared = counts.sketch.shared(Sketch.from_dict(done.sketch))
                again = shared is not None and shared > SOME
            new = f"of sessions that no earlier round had; round {number} had them"
            require(not again, "counts", new, repr(counts))

    def _served(self, number: int) -> ProductionPolicy:
        if number == 0:
            return self.production
        name = f"served-{number:03}.safetensors"
        return read_policy(self.folder / name, self.items.offsets, self.click_model.ranks)

    def _counts(self, number: int) -> Counts:
        name = f"counts-{number:03}.safetensors"
        return read_round(self.folder / name, self.items.offsets, self.click_model.ranks)

    def _candidate(self, number: int, options: dict[str, Any]) -> Ranker:
        """Learned from all sessions before this round, and from this round's to learn from."""
        folder = self.folder / f"candidate-{number:03}"
        if (folder / "ranker.json").is_file():
            return load(folder)
        parts = [
            *(self._counts(earlier).part("all") for earlier in range(1, number)),
            self._counts(number).part("learn"),
        ]
        policies = [self._served(earlier) for earlier in range(number)]
        k = self.click_model.ranks
        ranker = learn(
            self.items, reduce(add, parts), self.click_model, method=self.plan.method,
            production=self.start_scores, production_kind=self.production.kind,
            logged_by=mix_policies(policies, [part.sessions for part in parts], k),
            seed=derive(self.plan.seed, "round", number),
            checkpoint=self.folder / "checkpoints", **options,
        )  # fmt: skip
        ranker.save(folder)
        return ranker

    def _as_served(self, ranker: Ranker) -> Candidate:
        against = self.production if self.plan.against == "first" else self.served
        looking = Examination.of("fitted", self.click_model.exposure_weights)
        return Candidate(ranker, self.plan.promise, against, looking)

    def _judge(self, ranker: Ranker, number: int) -> Step:
        judged = self._counts(number).part("judge")
        rule = Rule(by="clicks", tolerance=self.plan.tolerance)
        return take_step(
            self._as_served(ranker), self.items, judged, self.served, self.click_model, rule
        )
