"""What a verdict does not rest on, because nothing here can check it: said, not left out."""

from __future__ import annotations

from saferank.safety.assessment import Assessment


def not_checked(assessment: Assessment) -> tuple[str, ...]:
    """What was not checked, one sentence each, by what was there to check with."""
    sentences = []
    if assessment.log is None:
        sentences.append("No clicks were given: whether it is better was not looked at.")
    else:
        sentences.append(
            "The form of the click model: clicks that depend on each other, on pictures, prices or "
            "snippets are not in it, however large the doubt short of any users."
        )
    if assessment.decision.rule == "clicks" and not assessment.certificate.holds:
        sentences.append(
            "Single queries: on average it is as good as said; some queries may lose, as shown "
            "below."
        )
    sentences += [
        "Whether days to come are like those of the log: seasons, campaigns, new items.",
        "Queries that are not among the items, unless the guard is used.",
        "Anything but what the rank weights count: revenue, variety, speed, fairness to sellers.",
    ]
    return tuple(sentences)
