"""To ship or not: decisions that each say what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from saferank.counts.feedback import Feedback
from saferank.errors import require
from saferank.evaluation import Interval
from saferank.evaluation.doubt import DoubtCurve
from saferank.evaluation.lower_bound import LowerBound
from saferank.safety.certificate import Certificate
from saferank.safety.doubt_words import answer, assumption, certainty, certified, percent
from saferank.safety.guarded import what_is_left
from saferank.safety.rule import Rule

_DEFAULT = Rule()

_METHODS = {
    "normal": "The log is large enough for normal theory; the verdict is for the log's queries.",
    "clustered": "Queries are independent and many enough for normal theory.",
    "bootstrap": "Queries are independent, and many enough to stand for those to come.",
    "bernstein": "Sessions are independent; the bound holds for any number of them.",
    "cantelli": "Examinations of documents are independent (the paper's theorem); any number of "
    "sessions; the verdict is for the log's queries.",
}
_AGAIN = "log what is shown, and judge it again by that log."
_SERVE = f"Serve it (saferank serve RUN --log FOLDER, or saferank rank RUN --items ITEMS), {_AGAIN}"


def _serve_guarded(certificate: Certificate) -> str:
    """How to serve with the guard; where only the log tells production, its lists are needed."""
    if certificate.promise.has_floors:
        return f"Serve it (saferank rank RUN --items ITEMS --guard --group COLUMN), {_AGAIN}"
    if certificate.production_kind not in ("observed", "recorded"):
        return _SERVE.replace("ITEMS)", "ITEMS --guard)")
    return (
        "Serve it with production's lists: saferank serve RUN --log FOLDER takes production_rank "
        "with each request, saferank rank RUN --items ITEMS --guard --production LISTS one list "
        "per query. Then judge it again by that log."
    )


_LOOSE = {
    "observed": ", as what production shows is known from the log's frequencies only",
    "recorded": ", as not all that production may show has a recorded propensity",
}
"""Why a promise may look broken that is kept."""


def nearly(share: float) -> str:
    """A share in per cent that is 100.0% only where it is all.

    >>> nearly(0.99991), nearly(1.0)
    ('over 99.9%', '100.0%')
    """
    return "over 99.9%" if 0.9995 <= share < 1 else f"{share:.1%}"


@dataclass(frozen=True)
class Check:
    """One of the things that a rule asks for."""

    asked: str
    met: bool
    found: str


@dataclass(frozen=True)
class Decision:
    """Ship or not, why, and what that assumes.

    See Also
    --------
    assess : makes one.

    Examples
    --------
    >>> import numpy as np
    >>> import saferank as sr
    >>> items = sr.data.RankingData(np.eye(3), offsets=[0, 3])
    >>> decision = sr.assess([2.0, 1.0, 0.0], items, production=[2.0, 1.0, 0.5]).decision
    >>> decision.ship, decision.rule
    (True, 'promise')
    """

    ship: bool
    """Whether to."""
    rule: str
    """By what it was decided: "promise", "promise with guard", "clicks" or "both"."""
    sentence: str
    """Why, in words for the person who decides."""
    assumes: tuple[str, ...]
    """What the sentence takes for granted."""
    guard: float | None = None
    """The share that the guard keeps, where shipping needs it."""
    unsure: bool = False
    """Not shipped because something cannot be told, not because it was found to be worse."""
    next_step: str = ""
    """What to do now, in one sentence."""
    checks: tuple[Check, ...] = ()
    """What was asked for and found, where a rule asks for several things."""

    def about(self, feedback: Feedback) -> Decision:
        """The same in the words of what was counted."""
        return replace(
            self,
            sentence=feedback.say(self.sentence),
            assumes=tuple(feedback.say(sentence) for sentence in self.assumes),
            next_step=feedback.say(self.next_step),
            checks=tuple(
                Check(feedback.say(check.asked), check.met, feedback.say(check.found))
                for check in self.checks
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """The decision for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class ClickTest:
    """What the sessions to judge by say of what would be served, and what speaks against it."""

    difference: Interval
    """Of clicks per session; so is the bound."""
    production: float
    """Production's clicks per session."""
    bound: LowerBound
    sessions: int
    problems: tuple[str, ...] = ()
    """Why the numbers cannot be relied on, one sentence each; empty where they can."""
    assumes: tuple[str, ...] = ()
    flatters: bool = False
    independent: bool = True
    """Whether sessions that it learned from would have been found; else it is taken for granted."""
    doubts: DoubtCurve | None = None
    """What is certain of utility, the more the click model is doubted."""

    def share(self, value: float) -> float:
        """A difference as a share of production's clicks."""
        return value / self.production if self.production > 0 else float("nan")

    def passes(self, tolerance: float) -> bool:
        """Whether at least 1 - tolerance of production's clicks are certain."""
        return self.bound.lower >= -tolerance * max(self.production, 0.0)

    def in_doubt(self, rule: Rule) -> bool:
        """Whether the stated doubt leaves open what the rule asks for."""
        return rule.doubt is not None and (self.doubts is None or not self.doubts.holds)

    def sentence(self, *, worse: bool = False, robust: bool = True) -> str:
        """The change in per cent, with its bound; of a loss how large it is at least.

        `robust` adds how wrong the click model may be.
        """
        gap = self.difference
        if self.production <= 0:
            return f"none of the {self.sessions:,} sessions to judge by has a click"
        text = f"clicks per session change by {self.share(gap.estimate):+.1%}"
        if worse:
            text += f" ({self.share(gap.lower):+.1%} to {self.share(gap.upper):+.1%})"
        else:
            text += (
                f", with confidence {self.bound.confidence:.0%} by at least "
                f"{self.share(self.bound.lower):+.1%}"
            )
        if self.flatters:
            return f"{text}, on the {self.sessions:,} sessions it learned from: this flatters it"
        sessions = "that it did not learn from" if self.independent else "taken to be new to it"
        text = f"{text}, on {self.sessions:,} sessions {sessions}"
        if robust and not worse and self.doubts is not None:
            return f"{text}; {certainty(self.doubts)}"
        return text

    def verdict(self, rule: Rule) -> str:
        """The change, and whether the doubt asked for is met, or else how much would be."""
        return self.sentence(robust=rule.doubt is None) + answer(self.doubts, rule.doubt)


def unconditional(certificate: Certificate, *, guard: bool = False) -> Decision:
    """Ship when every query keeps the promise, by itself or with the guard, for any relevance."""
    keep, promise = certificate.promise.keep, certificate.promise
    if certificate.holds and not guard:
        sentence = f"Ship: each of {certificate.queries:,} queries {promise}, {certificate.scope}."
        return Decision(True, "promise", sentence, certificate.assumptions, next_step=_SERVE)
    stepping = (
        f"the guard steps in on {certificate.guard_share:.1%} of the queries, and "
        f"{what_is_left(certificate.guard_mode, nearly(certificate.guard_mixing))}"
    )
    if guard:
        sentence = (
            f"Ship with guard {keep:g}: every query then {promise}, {certificate.scope}; "
            f"{stepping}."
        )
        return Decision(
            True, "promise with guard", sentence, certificate.assumptions, keep,
            next_step=_serve_guarded(certificate),
        )  # fmt: skip
    broken = 1 - certificate.share_holding
    why = _LOOSE.get(certificate.production_kind, "")
    sentence = (
        f"Do not ship as it is: {broken:.1%} of the traffic is on queries that may lose more than "
        f"promised{why}; with guard {keep:g} it can be shipped: {stepping}."
    )
    step = "Certify again with --guard to see what is left of the gain when the promise is kept."
    return Decision(False, "promise", sentence, certificate.assumptions, next_step=step)


def by_clicks(test: ClickTest, *, rule: Rule = _DEFAULT) -> Decision:
    """SEA (Jagerman et al., 2020): ship when the change is surely above -tolerance.

    The bound is one-sided: a ranker that is worse by more than the tolerance is shipped with
    probability at most 1 - confidence, under what is assumed. With a doubt, as much has to be
    certain of its utility for every click model within it. Where something speaks against the
    numbers themselves, they decide nothing.
    """
    assumes = (assumption(rule.doubt or 0.0), *test.assumes, _METHODS[rule.interval])
    if test.problems:
        in_doubt = answer(None, rule.doubt)
        sentence = f"Do not ship yet, the log cannot tell: {'; '.join(test.problems)}{in_doubt}."
        step = _next_for_problems(test.problems)
        return Decision(False, "clicks", sentence, assumes, unsure=True, next_step=step)
    in_doubt = answer(test.doubts, rule.doubt)
    if test.passes(rule.tolerance) and not test.in_doubt(rule):
        sentence = f"Ship: {test.verdict(rule)}."
        return Decision(True, "clicks", sentence, assumes, next_step=_SERVE)
    worse = test.difference.upper < -rule.tolerance * max(test.production, 0.0)
    if worse:
        worst = test.sentence(worse=True)
        sentence = f"Do not ship: it is worse than production; {worst}{in_doubt}."
        step = "Keep production; learn with another method, or from more sessions."
        return Decision(False, "clicks", sentence, assumes, next_step=step)
    if test.passes(rule.tolerance) and test.doubts is not None:
        sentence = f"Do not ship yet, it rests on the click model: {test.verdict(rule)}."
        step = _next_for_trust(test.doubts, rule.guard)
        return Decision(False, "clicks", sentence, assumes, unsure=True, next_step=step)
    if test.difference.estimate < -rule.tolerance * max(test.production, 0.0):
        worst = test.sentence(worse=True)
        sentence = f"Do not ship: it looks worse than production; {worst}{in_doubt}."
        step = "Keep production; learn with another method, or from more sessions."
        return Decision(False, "clicks", sentence, assumes, unsure=True, next_step=step)
    by_log = test.sentence(robust=False)
    sentence = f"Do not ship yet, a loss cannot be ruled out: {by_log}{in_doubt}."
    step = _next_for_certainty(test.bound, rule.guard)
    return Decision(False, "clicks", sentence, assumes, unsure=True, next_step=step)


OTHER_USERS = "the click model is not that of these users"


def _next_for_problems(problems: Sequence[str]) -> str:
    """What to do where something speaks against the numbers."""
    within = "With --guard --by promise the ranker can be tried within a promise."
    if any(OTHER_USERS in problem for problem in problems):
        return (
            "Fit the click model to this log (`saferank bias COUNTS -o bias.json`), learn with "
            f"--bias bias.json, and certify that ranker. {within}"
        )
    return (
        "See `saferank logs check`; a log of more sessions, or with some random exploration "
        f"(`saferank explore`), can tell. {within}"
    )


def _next_for_certainty(bound: LowerBound, guard: bool) -> str:
    """What would rule a loss out: more sessions, or a log that shows more."""
    if bound.withheld > bound.sampling:
        step = (
            "More sessions of this log's kind help little: what stands in the way is documents "
            "that production hardly shows. Let it vary a little (`saferank explore --items ITEMS "
            "--sessions N --depth M` says how) and judge by that log"
        )
    else:
        step = "Judge it by more sessions"
    if guard:
        return f"{step}; with --guard --by promise it can be tried within the promise."
    return f"{step}, or certify with --guard."


def _next_for_trust(curve: DoubtCurve, guard: bool) -> str:
    """What helps where more trust in the click model is asked for than there is."""
    step = (
        "Fit the click model from a log with some chance in it (`saferank explore`), and judge by "
        "more sessions; if the click model is surely right to within less, say so with --doubt"
    )
    if curve.breakdown:
        step += f" ({curve.breakdown:g} would do)"
    return f"{step}." if guard else f"{step}; or certify with --guard --by promise."


def verdict(
    certificate: Certificate,
    test: ClickTest | None = None,
    *,
    rule: Rule = _DEFAULT,
) -> Decision:
    """The decision by the promise, by the clicks, or by both.

    `auto` is by clicks where there are sessions to judge by, else by the promise. By both with a
    doubt: (a) the sessions to judge by make at least 1 - tolerance of production's utility certain
    on average, for every click model within the doubt, and (b) every query keeps the promise, by
    itself or by the guard. A ranker that clicks show to be worse is never shipped.
    """
    by, guard = rule.by, rule.guard
    if by == "auto":
        by = "promise" if test is None else "clicks"
    promised = unconditional(certificate, guard=guard)
    if test is None:
        require(by == "promise", "counts", "given to decide by clicks", None)
        return promised
    clicked = by_clicks(test, rule=rule)
    if by == "promise":
        surely_worse = not clicked.ship and not clicked.unsure
        return clicked if promised.ship and surely_worse else promised
    if rule.joined:
        return _joined(certificate, test, clicked, promised, rule)
    if guard and clicked.ship:
        sentence = f"Ship with guard {certificate.promise.keep:g}: {test.verdict(rule)}; "
        sentence += promised.sentence.split(": ", 1)[1]
        assumes = tuple(dict.fromkeys((*clicked.assumes, *promised.assumes)))
        return Decision(
            True, "clicks with guard", sentence, assumes, certificate.promise.keep,
            next_step=_serve_guarded(certificate),
        )  # fmt: skip
    if by == "clicks" or not clicked.ship:
        return clicked
    if not promised.ship:
        return replace(promised, sentence=f"{promised.sentence} By the log, {test.sentence()}.")
    sentence = f"Ship: {test.sentence()}; {promised.sentence.split(': ', 1)[1]}"
    assumes = tuple(dict.fromkeys((*clicked.assumes, *promised.assumes)))
    return Decision(True, "clicks and promise", sentence, assumes, next_step=_SERVE)


def _joined(
    certificate: Certificate, test: ClickTest, clicked: Decision, promised: Decision, rule: Rule
) -> Decision:
    """Both with a doubt: enough for certain on average, and the promise to every query."""
    checks = (_on_average(test, clicked, rule), _every_query(certificate, promised, rule))
    assumes = tuple(dict.fromkeys((*clicked.assumes, *promised.assumes)))
    curve, guarded = test.doubts, " with guard" if rule.guard else ""
    decision = Decision(
        clicked.ship and promised.ship, f"doubt and promise{guarded}", "", assumes,
        certificate.promise.keep if rule.guard and clicked.ship else None, clicked.unsure,
        clicked.next_step, checks,
    )  # fmt: skip
    kept = promised.sentence.split(": ", 1)[1]
    if not clicked.ship:
        nor = "The promise holds: " if promised.ship else "Nor is the promise kept: "
        return replace(decision, sentence=f"{clicked.sentence} {nor}{kept}")
    assert curve is not None
    by_log = test.sentence(robust=False)
    if promised.ship:
        keep = f" {certificate.promise.keep:g}" if rule.guard else ""
        return replace(
            decision,
            sentence=f"Ship{guarded}{keep}: {certified(curve)}; {by_log}; {kept}",
            next_step=_serve_guarded(certificate) if rule.guard else _SERVE,
        )
    return replace(
        decision,
        sentence=(
            f"Do not ship as it is: {checks[1].found}, {certificate.scope}; the guard would keep "
            f"the promise. On average it is good enough: {certified(curve)}; {by_log}."
        ),
        next_step="Certify again with --guard: whether enough is certain of what is then served.",
    )


def _on_average(test: ClickTest, clicked: Decision, rule: Rule) -> Check:
    """(a): what sessions to judge by make certain, within the stated doubt."""
    asked = (
        f"On average at least {percent(1 - rule.tolerance)} of production's clicks and utility, "
        f"with confidence {rule.confidence:.0%}, if the click model is wrong by up to "
        f"{percent(rule.told_doubt)}"
    )
    if test.problems or test.doubts is None:
        return Check(asked, False, "the log cannot tell")
    return Check(
        asked,
        clicked.ship,
        f"{percent(test.doubts.share)} of the utility and "
        f"{percent(1 + test.share(test.bound.lower))} of the clicks are certain",
    )


def _every_query(certificate: Certificate, promised: Decision, rule: Rule) -> Check:
    """(b): what every query keeps, by itself or by the guard."""
    keeping = f"{nearly(certificate.share_holding)} of the traffic keeps it by itself"
    if rule.guard:
        keeping += ", all of it with the guard"
    elif not promised.ship:
        keeping = (
            f"{1 - certificate.share_holding:.1%} of the traffic is on queries that may lose more "
            f"than promised{_LOOSE.get(certificate.production_kind, '')}"
        )
    return Check(f"Each query {certificate.promise}, {certificate.scope}", promised.ship, keeping)
