"""The paper's sentences about its results, each with a test on ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from saferank.experiments import claim_tests as tests
from saferank.experiments.claim_tests import Finding, NothingThereError
from saferank.experiments.results import Results


@dataclass(frozen=True)
class Claim:
    """A sentence that can be checked, the figure it is about, how it is tested, and why."""

    figure: int
    sentence: str
    test: str
    check: Callable[[Results], Finding]
    why: str = ""
    """What to know when it does not hold."""
    ours: bool = False
    """Whether the sentence goes beyond the paper."""


def judge(results: Results, figures: tuple[int, ...]) -> list[tuple[Claim, Finding]]:
    """Every claim about these figures with its finding; without results it cannot be told."""
    return [(claim, _checked(claim, results)) for claim in CLAIMS if claim.figure in figures]


def _checked(claim: Claim, results: Results) -> Finding:
    try:
        return claim.check(results)
    except NothingThereError as error:
        return Finding("cannot be told", f"no results: {error}")


_SMALL = "with few seeds and test queries the interval is wide"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        1,
        "With r > 0 there is no incentive to place a document higher than rank 6 from rank 8, "
        "4 from 6, 3 from 4.",
        "the clipped ratio at rank 1 equals that at the named rank (DCG weights, ε = 1.15)",
        tests.no_incentive,
        "From rank 8 the ratio at rank 6 is log 9 / log 7 = 1.129, still below 1.15: rank 5 pays a "
        "little more. The sentence is right for the other two.",
    ),
    Claim(
        2,
        "DR converges to the skyline much faster than IPS.",
        "DR makes 90 % of the way from production to the skyline at a smaller N",
        tests.dr_faster,
    ),
    Claim(
        2,
        "IPS fails to reach the optimal performance even after 10^9 clicks.",
        "IPS is below the skyline at the largest N, seed by seed",
        tests.ips_fails,
        "Gradients are exact here, and production's propensities are known: IPS has less noise "
        "than in the paper.",
    ),
    Claim(
        2,
        "With limited click data (N < 10^5) DR performs much worse than the logging policy.",
        "at its lowest N < 10^5 DR is below production, seed by seed",
        tests.dr_unsafe,
        "DR starts from random weights; how deep it falls depends on how good production is.",
    ),
    Claim(
        2,
        "With limited click data DR degrades compared to IPS.",
        "DR is below IPS at the smallest N, seed by seed",
        tests.dr_below_ips,
        _SMALL,
    ),
    Claim(
        2,
        "Safe DR reaches the logging policy's performance within ~500 queries.",
        "never more than 1 % below production from N = 500 on",
        tests.reaches("safe-dr"),
    ),
    Claim(
        2,
        "PRPO reaches the logging policy's performance within ~500 queries.",
        "never more than 1 % below production from N = 500 on",
        tests.reaches("prpo"),
        "At N = 1000 the clipping range of 100/N is already 0.1 to 10.",
    ),
    Claim(
        2,
        "PRPO reaches the logging policy's performance with almost 10^3 fewer queries than DR.",
        "the N from which on it is at most 1 % below production is at least 100 times smaller",
        tests.thousandfold,
        "The factor can only be as fine as the grid of N.",
    ),
    Claim(
        2,
        "Safe DR has the same performance at convergence as DR.",
        "within 1 % of DR at the largest N",
        tests.same_end("safe-dr"),
        "Safe DR starts from production's weights, DR from random ones: with few steps they end "
        "in different places.",
    ),
    Claim(
        2,
        "PRPO has the same performance at convergence as DR.",
        "within 1 % of DR at the largest N",
        tests.same_end("prpo"),
        "PRPO starts from production's weights, DR from random ones: with few steps they end in "
        "different places.",
    ),
    Claim(
        3,
        "With δ = 0.01/N the clipping range is wider, and PRPO more unsafe, than with 100/N.",
        "its largest drop below production at N < 10^5 is larger",
        tests.wider_is_less_safe,
    ),
    Claim(
        3,
        "δ = 100/N is the safest amongst all.",
        "no other δ has a smaller largest drop",
        tests.safest,
        "δ = 1 cannot drop at all; the sentence can only be meant of the two schedules c/N.",
    ),
    Claim(
        3,
        "With δ = 0.01/N and 100/N PRPO converges to DR when N increases.",
        "within 2 % of DR at the largest N",
        tests.become_dr,
        "The objective becomes DR's; the start does not: PRPO starts from production's weights.",
    ),
    Claim(
        3,
        "With δ = 1/log N PRPO is more conservative throughout.",
        "at every N it moves no more exposure than 100/N",
        tests.conservative,
        "Below N = 650 the range of 1/log N is the wider one: at N = 100 it is 0.22 against 1.",
    ),
    Claim(
        3,
        "With δ = 1 PRPO sticks closely to the logging policy.",
        "at most 1 % of the exposure moves",
        tests.sticks,
    ),
    Claim(
        3,
        "Safe DR: a lower δ results in a policy closer to the logging policy (N < 10^5).",
        "the share of exposure moved grows with δ",
        tests.lower_is_nearer,
        "Differences may be smaller than the noise of early stopping.",
    ),
    Claim(
        3,
        "Safe DR: until N < 10^5 there is no noticeable difference in performance.",
        "no two δ differ by more than 2 %",
        tests.no_difference,
        "The paper also says that a lower δ is nearer to production there; both cannot be strong.",
    ),
    Claim(
        3,
        "Safe DR's differences are less drastic than PRPO's: it is less flexible.",
        "the spread of NDCG over δ, mean over N, is smaller",
        tests.less_flexible,
    ),
    Claim(
        4,
        "With δ = 1, after ~400 queries PRPO never drops below the logging policy.",
        "no drop from N = 400 on",
        tests.never_below,
    ),
    Claim(
        4,
        "For other δ there are drops, but they are all bounded.",
        "no δ drops by more than 1 - δ",
        tests.bounded,
        "PRPO removes incentives; a shared scorer may still move documents that have none. Only "
        "the floor or the guard make it a constraint.",
    ),
    Claim(
        4,
        "The largest drop is 12, 10 and 20 % (Yahoo, MSLR30K, Istella).",
        "no drop exceeds 20 %",
        tests.as_small_as_in_the_paper,
        "How deep it is depends on the collection and on how peaked production is.",
    ),
    Claim(
        4,
        "Even with δ = 0.01 safe DR drops drastically as the click data grow.",
        "at the largest N it drops by more than 20 %, and more than PRPO ever does",
        tests.drastic,
    ),
    Claim(
        4,
        "Regardless of δ, it is only a matter of time before safe DR degrades dramatically.",
        "every δ drops by more than 20 % at the largest N",
        tests.matter_of_time,
    ),
    Claim(
        5,
        "PRPO with δ = 0.5 keeps half of production's utility whatever rule users click by.",
        "every ranker keeps at least half",
        tests.still_safe,
        ours=True,
    ),
    Claim(
        6,
        "No ranker loses more utility than its certificate says, for any relevance.",
        "utility lost is at most the bound, for every job",
        tests.bound_holds,
        ours=True,
    ),
    Claim(
        7,
        "With a strong production ranker and few sessions, counterfactual learning (DR) beats "
        "plain clicks.",
        "DR is above plain clicks at every N up to 10^6, seed by seed",
        tests.beats_clicks,
        "A strong ranker's log holds few surprises, and few sessions make the corrections noisy; "
        "a reproducibility study (SIGIR 2025) saw the same.",
        ours=True,
    ),
)
