"""What a doubt curve says, in words: the same in verdict, text output and page."""

from __future__ import annotations

from saferank.evaluation.doubt import DOUBTS, DoubtCurve


def percent(share: float) -> str:
    """A share in whole per cent, cut off rather than rounded up: no more is certain.

    >>> percent(0.9997), percent(0.29), percent(1.053)
    ('99 %', '29 %', '105 %')
    """
    return f"{int(100 * share + 1e-9)} %"


def wanted(curve: DoubtCurve) -> str:
    """What is looked for in words."""
    if curve.wanted == 1:
        return "a utility of at least production's"
    return f"at least {percent(curve.wanted)} of production's utility"


def breakdown(curve: DoubtCurve) -> str:
    """How wrong the click model may be: the number that the page leads with."""
    if curve.for_any_users:
        return "however users behave"
    if curve.breakdown is None:
        return "not certain even if the click model is right"
    if curve.breakdown == 0:
        return "only if the click model is right"
    if curve.breakdown == DOUBTS[-1]:
        return f"even if the click model is wrong by {percent(curve.breakdown)}"
    return f"as long as the click model is right to within {percent(curve.breakdown)}"


def certainty(curve: DoubtCurve) -> str:
    """What follows, as a clause of the verdict."""
    sure = curve.breakdown is not None or curve.for_any_users
    return f"{wanted(curve)} is {'certain ' if sure else ''}{breakdown(curve)}"


def _asked(curve: DoubtCurve) -> str:
    return f"the doubt of {percent(curve.stated)} that was asked for is "


def certified(curve: DoubtCurve) -> str:
    """That the doubt asked for is met, as a clause of the verdict."""
    return (
        f"{_asked(curve)}met: with it at least {percent(curve.share)} of production's utility is "
        "certain on average"
    )


def shortfall(curve: DoubtCurve) -> str:
    """That the doubt asked for is not met, as a clause of the verdict, and which would be."""
    return (
        f"{_asked(curve)}not met: with it no more than {percent(curve.share)} of production's "
        f"utility is certain; {certainty(curve)}"
    )


def answer(curve: DoubtCurve | None, asked: float | None) -> str:
    """Whether the doubt asked for is met, to be added to a verdict; empty where none was."""
    if asked is None:
        return ""
    if curve is None:
        return f"; whether the doubt of {percent(asked)} that was asked for is met cannot be told"
    return f"; {certified(curve)}; {certainty(curve)}" if curve.holds else f"; {shortfall(curve)}"


def assumption(doubt: float) -> str:
    """What is assumed of clicks with a doubt."""
    if doubt == 0:
        return (
            "Clicks follow the click model with the parameters given: position and trust bias, no "
            "other."
        )
    return (
        f"Clicks at rank k come with probability alpha_k R + beta_k, each alpha_k and beta_k "
        f"within {percent(doubt)} of the click model's (a beta of 0 is not doubted); clicks have "
        f"no other cause."
    )
