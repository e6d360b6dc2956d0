"""How each sentence of the paper is tested on the results: small functions over curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from saferank._core.flat import Floats
from saferank.experiments.figure_drawing import clipped_ratios
from saferank.experiments.learning_curves import CURVES, Curve, curves_of
from saferank.experiments.results import Results, mean_interval

Verdict = Literal["holds", "does not hold", "cannot be told"]
CLOSE = 0.01
"""Two NDCG values closer than this share are level."""
LIMITED = 10**5
"""The paper's "limited click data": fewer sessions than this."""
ENDLESS = 10**8
"""What the paper says of convergence is asked at this many sessions or more."""


@dataclass(frozen=True)
class Finding:
    """What a claim's test says, with the numbers it says it by."""

    verdict: Verdict
    numbers: str


class NothingThereError(Exception):
    """A test met a point without results."""


# -- what tests are made of --------------------------------------------------------------------


def _curve(figure: int, method: str, delta: str | None = None) -> Curve:
    for curve in CURVES[figure]:
        if curve.method == method and (delta is None or curve.delta == delta):
            return curve
    raise KeyError((figure, method, delta))


def _production(curve: Curve) -> Curve:
    return Curve("", "production", "production", strong=curve.strong)


def _skyline() -> Curve:
    return Curve("", "skyline", "skyline")


def _mean(results: Results, curve: Curve, sessions: int, measure: str = "expected") -> float:
    return float(_there(results.values(curve, sessions, measure), curve, sessions).mean())


def _there(values: Floats, curve: Curve, sessions: int) -> Floats:
    if not values.size:
        raise NothingThereError(f"{curve.label or curve.method} at {_n(sessions)}")
    return values


def _change(results: Results, curve: Curve, sessions: int) -> Floats:
    """Expected NDCG relative to production's, less 1, seed by seed."""
    difference = results.against(curve, sessions, _production(curve), 0)
    return _there(difference, curve, sessions) / _mean(results, _production(curve), 0)


def _grid(results: Results, *curves: Curve, above: float = 0, below: float = np.inf) -> list[int]:
    numbers = [n for n in results.sessions(*curves) if above <= n < below]
    if not numbers:
        raise NothingThereError("no N in the range of the claim")
    return numbers


def _last(results: Results, *curves: Curve) -> int:
    """The study's largest N; smaller ones say nothing of where methods end."""
    last = results.study.sessions[-1]
    if last < ENDLESS:
        raise NothingThereError(f"the largest N is {last:.0e}, less than {ENDLESS:.0e}")
    if last not in _grid(results, *curves):
        raise NothingThereError(f"nothing at {_n(last)}")
    return last


def _largest_drop(results: Results, curve: Curve, **limits: float) -> tuple[float, int]:
    """The largest mean drop below production, as a share, and the N of it."""
    drops = {n: -float(_change(results, curve, n).mean()) for n in _grid(results, curve, **limits)}
    at = max(drops, key=lambda n: drops[n])
    return max(0.0, drops[at]), at


def _safe_from(results: Results, curve: Curve) -> int | None:
    """The smallest N from which on the curve is never more than 1 % below production."""
    safe = None
    for n in reversed(_grid(results, curve)):
        if float(_change(results, curve, n).mean()) < -CLOSE:
            break
        safe = n
    return safe


def _reached(results: Results, curve: Curve) -> int | None:
    """The smallest N at which 90 % of the way from production to the skyline is made."""
    low, high = _mean(results, _production(curve), 0), _mean(results, _skyline(), 0)
    for n in _grid(results, curve):
        if _mean(results, curve, n) >= low + 0.9 * (high - low):
            return n
    return None


def _sign(values: Floats, numbers: str, *, positive: bool) -> Finding:
    """Whether the mean of differences has a sign, by its 80 % confidence interval."""
    it = mean_interval(values)
    low, high = (it.low, it.high) if positive else (-it.high, -it.low)
    text = f"{numbers}: {it.mean:+.4f}, 80 % interval {it.low:+.4f} to {it.high:+.4f}"
    if not np.isfinite(low):
        return Finding("cannot be told", f"{numbers}: {it.mean:+.4f}, one seed only")
    if low > 0:
        return Finding("holds", text)
    return Finding("does not hold" if high < 0 else "cannot be told", text)


def _yes(holds: bool, numbers: str) -> Finding:
    return Finding("holds" if holds else "does not hold", numbers)


def _n(sessions: int | None) -> str:
    return "never" if sessions is None else f"N = {sessions:.0e}".replace("e+0", "e")


# -- figure 1 ----------------------------------------------------------------------------------


def no_incentive(results: Results) -> Finding:
    """What is still to be gained above the ranks that the paper names."""
    del results
    lines, holds = [], True
    for original, top in ((8, 6), (6, 4), (4, 3)):
        paid = [row["clipped"] for row in clipped_ratios(1.0, (original,)) if row["rank"] <= top]
        more = paid[0] - paid[-1]
        holds = holds and more < 1e-9
        lines.append(f"from rank {original}: {more:.3f} to gain above rank {top}")
    return _yes(holds, "; ".join(lines))


# -- figure 2 ----------------------------------------------------------------------------------


def dr_faster(results: Results) -> Finding:
    """Where DR and IPS come near the skyline."""
    dr, ips = (_reached(results, _curve(2, method)) for method in ("dr", "ips"))
    text = f"90 % of the way to the skyline: DR {_n(dr)}, IPS {_n(ips)}"
    if dr is None and ips is None:
        return Finding("cannot be told", text)
    return _yes(dr is not None and (ips is None or dr < ips), text)


def ips_fails(results: Results) -> Finding:
    """IPS against the skyline at the largest N."""
    ips = _curve(2, "ips")
    last = _last(results, ips)
    gap = _there(results.against(ips, last, _skyline(), 0), ips, last)
    return _sign(gap, f"IPS minus skyline at {_n(last)}", positive=False)


def dr_unsafe(results: Results) -> Finding:
    """DR against production where it is lowest."""
    dr = _curve(2, "dr")
    drop, at = _largest_drop(results, dr, below=LIMITED)
    lines = f"largest drop of DR below production: {drop:.1%} at {_n(at)}; relative change there"
    return _sign(_change(results, dr, at), lines, positive=False)


def dr_below_ips(results: Results) -> Finding:
    """DR against IPS at the smallest N."""
    dr, ips = _curve(2, "dr"), _curve(2, "ips")
    first = _grid(results, dr, ips)[0]
    gap = _there(results.against(dr, first, ips), dr, first)
    return _sign(gap, f"DR minus IPS at {_n(first)}", positive=False)


def reaches(method: str) -> Callable[[Results], Finding]:
    """Whether a method stays at production's level from N = 500 on."""

    def check(results: Results) -> Finding:
        curve = _curve(2, method)
        drop, at = _largest_drop(results, curve, above=500)
        text = f"largest drop below production from N = 500 on: {drop:.1%} at {_n(at)}"
        return _yes(drop <= CLOSE, text)

    return check


def thousandfold(results: Results) -> Finding:
    """From where on DR and PRPO are at production's level."""
    dr, prpo = (_safe_from(results, _curve(2, method)) for method in ("dr", "prpo"))
    text = f"at production's level from: DR {_n(dr)}, PRPO {_n(prpo)}"
    if prpo is None:
        return _yes(False, text)
    if dr is None:
        last = results.study.sessions[-1]
        more = f"{text}; a factor of more than {last / prpo:g}"
        return Finding("holds" if last >= 100 * prpo else "cannot be told", more)
    return _yes(dr >= 100 * prpo, f"{text}; a factor of {dr / prpo:g} on this grid")


def same_end(method: str) -> Callable[[Results], Finding]:
    """Whether a method is level with DR at the largest N."""

    def check(results: Results) -> Finding:
        curve, dr = _curve(2, method), _curve(2, "dr")
        last = _last(results, curve, dr)
        gap = results.against(curve, last, dr) / _mean(results, dr, last)
        text = f"{curve.label} against DR at {_n(last)}: {gap.mean():+.1%}"
        return _yes(bool(abs(gap.mean()) <= CLOSE), text)

    return check


# -- figure 3 ----------------------------------------------------------------------------------


def wider_is_less_safe(results: Results) -> Finding:
    """Largest drops of the two schedules c/N."""
    wide, narrow = (
        _largest_drop(results, _curve(3, "prpo", delta), below=LIMITED)[0]
        for delta in ("0.01/N", "100/N")
    )
    return _yes(wide > narrow, f"largest drop, N < 1e5: 0.01/N {wide:.1%}, 100/N {narrow:.1%}")


def safest(results: Results) -> Finding:
    """Largest drops of every delta of PRPO."""
    drops = {
        str(curve.delta): _largest_drop(results, curve)[0]
        for curve in CURVES[3]
        if curve.method == "prpo"
    }
    text = ", ".join(f"{delta} {drop:.1%}" for delta, drop in drops.items())
    return _yes(drops["100/N"] <= min(drops.values()) + 1e-12, f"largest drop: {text}")


def become_dr(results: Results) -> Finding:
    """PRPO against DR at the largest N."""
    dr = _curve(2, "dr")
    lines, level = [], True
    for delta in ("0.01/N", "100/N"):
        curve = _curve(3, "prpo", delta)
        last = _last(results, curve, dr)
        gap = float((results.against(curve, last, dr) / _mean(results, dr, last)).mean())
        level = level and abs(gap) <= 2 * CLOSE
        lines.append(f"{delta}: {gap:+.1%}")
    return _yes(level, f"against DR at the largest N: {', '.join(lines)}")


def conservative(results: Results) -> Finding:
    """Exposure moved by 1/log N and by 100/N."""
    slow, fast = _curve(3, "prpo", "1/log N"), _curve(3, "prpo", "100/N")
    lines, holds = [], True
    for n in _grid(results, slow, fast):
        near, far = (_mean(results, curve, n, "distance") for curve in (slow, fast))
        holds = holds and near <= far
        lines.append(f"{_n(n)}: {near:.3f}, {far:.3f}")
    return _yes(holds, f"share of exposure moved, 1/log N and 100/N: {'; '.join(lines)}")


def sticks(results: Results) -> Finding:
    """Exposure moved by PRPO with delta 1."""
    one = _curve(3, "prpo", "1")
    moved = max(_mean(results, one, n, "distance") for n in _grid(results, one))
    return _yes(moved <= CLOSE, f"largest share of exposure moved: {moved:.2g}")


def _safe_dr_deltas(results: Results, n: int, measure: str) -> list[float]:
    curves = [curve for curve in CURVES[3] if curve.method == "safe-dr"]
    return [_mean(results, curve, n, measure) for curve in curves]


def lower_is_nearer(results: Results) -> Finding:
    """Exposure moved by safe DR, by delta."""
    lines, holds = [], True
    for n in _grid(results, _curve(3, "safe-dr"), below=LIMITED):
        moved = _safe_dr_deltas(results, n, "distance")
        holds = holds and moved == sorted(moved)
        lines.append(f"{_n(n)}: {', '.join(f'{value:.3f}' for value in moved)}")
    return _yes(holds, f"share of exposure moved, δ = 0.01, 0.1, 0.45, 0.95: {'; '.join(lines)}")


def no_difference(results: Results) -> Finding:
    """The largest difference between two deltas of safe DR."""
    spread = {
        n: float(np.ptp(_safe_dr_deltas(results, n, "expected")))
        for n in _grid(results, _curve(3, "safe-dr"), below=LIMITED)
    }
    at = max(spread, key=lambda n: spread[n])
    share = spread[at] / _mean(results, _production(_curve(3, "prpo")), 0)
    return _yes(share <= 2 * CLOSE, f"largest difference between two δ: {share:.1%} at {_n(at)}")


def less_flexible(results: Results) -> Finding:
    """The spread of NDCG over delta, of safe DR and of PRPO."""

    def spread(method: str) -> float:
        curves = [curve for curve in CURVES[3] if curve.method == method]
        numbers = _grid(results, *curves)
        return float(np.mean([np.ptp([_mean(results, c, n) for c in curves]) for n in numbers]))

    safe, prpo = spread("safe-dr"), spread("prpo")
    text = (
        f"NDCG between the best and the worst δ, mean over N: safe DR {safe:.4f}, PRPO {prpo:.4f}"
    )
    return _yes(safe < prpo, text)


# -- figure 4 ----------------------------------------------------------------------------------


def never_below(results: Results) -> Finding:
    """The largest drop of PRPO with delta 1, adversarial users."""
    drop, at = _largest_drop(results, _curve(4, "prpo", "1"), above=400)
    return _yes(drop <= 1e-6, f"largest drop from N = 400 on, δ = 1: {drop:.2%} at {_n(at)}")


def _prpo_drops(results: Results) -> dict[str, float]:
    curves = [curve for curve in CURVES[4] if curve.method == "prpo" and curve.delta != "1"]
    return {str(curve.delta): _largest_drop(results, curve)[0] for curve in curves}


def _safe_dr_drops(results: Results) -> dict[str, float]:
    """Drops at the largest N."""
    curves = [curve for curve in CURVES[4] if curve.method == "safe-dr"]
    last = _last(results, *curves)
    return {str(c.delta): -float(_change(results, c, last).mean()) for c in curves}


def _list(drops: dict[str, float]) -> str:
    return ", ".join(f"δ = {delta}: {drop:.1%}" for delta, drop in drops.items())


def bounded(results: Results) -> Finding:
    """The largest drops of PRPO, adversarial users, against 1 - delta."""
    drops = _prpo_drops(results)
    kept = all(drop <= 1 - float(delta) for delta, drop in drops.items())
    return _yes(kept, f"largest drops: {_list(drops)}")


def as_small_as_in_the_paper(results: Results) -> Finding:
    """The largest drop of PRPO, adversarial users."""
    drop = max(_prpo_drops(results).values())
    return _yes(drop <= 0.2, f"the largest drop is {drop:.1%}")


def drastic(results: Results) -> Finding:
    """Safe DR with delta 0.01, adversarial users, at the largest N."""
    drop = _safe_dr_drops(results)["0.01"]
    worst = max(_prpo_drops(results).values())
    text = f"δ = 0.01 at the largest N: {drop:.1%}; PRPO's largest drop: {worst:.1%}"
    return _yes(drop > 0.2 and drop > worst, text)


def matter_of_time(results: Results) -> Finding:
    """Safe DR with every delta, adversarial users, at the largest N."""
    drops = _safe_dr_drops(results)
    return _yes(min(drops.values()) > 0.2, f"drops at the largest N: {_list(drops)}")


# -- beyond the paper --------------------------------------------------------------------------


def still_safe(results: Results) -> Finding:
    """The least share of production's utility that PRPO keeps with other users, job by job."""
    curves = [c for c in CURVES[5] if c.method == "prpo" and c.delta == "0.5"]
    kept = {curve.panel: _least_kept(results, curve) for curve in curves}
    text = ", ".join(f"{panel} {share:.1%}" for panel, share in kept.items())
    return _yes(min(kept.values()) >= 0.5, f"least kept by a ranker: {text}")


def _least_kept(results: Results, curve: Curve) -> float:
    shares = [
        _there(results.values(curve, n, "utility"), curve, n)
        / results.values(curve, n, "production_utility")
        for n in _grid(results, curve)
    ]
    return float(np.min(shares))


def bound_holds(results: Results) -> Finding:
    """Utility lost against the certificate's bound, job by job."""
    pairs = []
    for curve in dict.fromkeys(curves_of(6)):
        for n in results.sessions(curve):
            for seed in range(results.study.seeds):
                measures = results.measures.get(results.job(curve, n, seed), {})
                if "bound" in measures:
                    lost = measures["production_utility"] - measures["utility"]
                    pairs.append((lost, measures["bound"]))
    if not pairs:
        raise NothingThereError("no certificates")
    broken = sum(lost > bound + 1e-9 for lost, bound in pairs)
    return _yes(broken == 0, f"{len(pairs)} rankers, {broken} lost more than their bound")


def beats_clicks(results: Results) -> Finding:
    """DR against plain clicks with a strong production ranker."""
    dr, naive = _curve(7, "dr"), _curve(7, "naive")
    lines, wins = [], []
    for n in _grid(results, dr, naive):
        gap = mean_interval(_there(results.against(dr, n, naive), dr, n))
        wins.append(gap.low > 0)
        lines.append(f"{_n(n)}: {gap.mean:+.4f} ({gap.low:+.4f} to {gap.high:+.4f})")
    return _yes(all(wins), f"DR minus plain clicks: {'; '.join(lines)}")
