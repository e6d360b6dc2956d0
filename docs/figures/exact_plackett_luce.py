"""The two charts of docs/exact-plackett-luce.md: `python -m docs.figures.exact_plackett_luce`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from benchmarks.measure import best_seconds
from benchmarks.samplers import numpy_pl_rank, on_threads, torch_reinforce
from saferank._core.flat import Floats
from saferank.metrics import dcg_weights
from saferank.plackett_luce import GRADIENTS, exposure_gradient, nodes, race

HERE = Path(__file__).parent
WEIGHTS = dcg_weights(5)
TOLERANCES = np.logspace(-1, -13, 49)
Points = list[dict[str, Any]]


def queries(documents: int, spread: float, count: int) -> tuple[Floats, Floats]:
    """Scores and slopes, one row per query."""
    rng = np.random.default_rng(documents)
    return spread * rng.normal(size=(count, documents)), rng.normal(size=(count, documents))


def relative(gradient: Floats, exact: Floats) -> float:
    """Error of a gradient relative to its length."""
    return float(np.linalg.norm(gradient - exact) / np.linalg.norm(exact))


def coordinates(method: str) -> Callable[..., Floats]:
    """A coordinate-conditional sampler that draws again at each call."""
    seeds = itertools.count()

    def draw(scores: Floats, weights: Floats, slope: Floats, samples: int) -> Floats:
        offsets, seed = [0, scores.size], next(seeds)
        return GRADIENTS[method](scores, weights, offsets, slope, samples=samples, seed=seed)

    return draw


def error_against_nodes() -> Points:
    """The worst of 20 queries for each number of nodes that some tolerance asks for."""
    points = []
    for documents, spread in ((20, 1), (120, 1), (120, 3), (1000, 3), (1000, 8)):
        worst: dict[int, float] = {}
        for scores, slope in zip(*queries(documents, spread, 20), strict=True):
            gradient = partial(exposure_gradient, scores, WEIGHTS, [0, documents], slope)
            exact = gradient(tol=1e-13)
            best: dict[int, float] = {}
            for tol in TOLERANCES[:-4]:
                blocks = race.prepare(scores, 5, nodes.grid(float(tol), 5, 1))[2]
                error = relative(gradient(tol=float(tol)), exact)
                best[8 * blocks] = min(error, best.get(8 * blocks, 1.0))
            for count, error in best.items():
                worst[count] = max(error, worst.get(count, 0.0))
        name = f"D = {documents}, std {spread}"
        points += [
            {"scores": name, "nodes": count, "error": max(error, 1e-13)}
            for count, error in sorted(worst.items())
        ]
    return points


def time_against_error(documents: int = 120) -> Points:
    """Time a query and error of the exact way and of samplers, D = 120, std 1.

    The error is that against the exact gradient. StochasticRank's Gaussian noise makes another
    policy, so it is also measured against the mean of a million draws of its own.
    """
    many, slopes = queries(documents, 1, 400)
    offsets = np.arange(401) * documents
    scores, slope = many[0], slopes[0]
    exact = exposure_gradient(scores, WEIGHTS, [0, documents], slope, tol=1e-13)
    points: Points = []
    calls: list[Callable[[], Floats]] = []
    for tol in (1e-1, 1e-2, 1e-3, 1e-5, 1e-7, 1e-9, 1e-11, 1e-12):
        every = partial(exposure_gradient, many.ravel(), WEIGHTS, offsets, slopes.ravel(), tol=tol)
        points.append({"way": "exact", "error": relative(every()[:documents], exact), "share": 400})
        calls.append(every)
    gaussian = coordinates("stochastic-rank")
    smoothed = gaussian(scores, WEIGHTS, slope, 1_000_000)
    samplers = {
        "REINFORCE (torch)": (partial(on_threads, 1, torch_reinforce), exact),
        "PL-Rank-3 (NumPy)": (partial(numpy_pl_rank, rng=np.random.default_rng(0)), exact),
        "StochasticRank": (gaussian, exact),
        "StochasticRank, for its own policy": (gaussian, smoothed),
        "StochasticRank, Gumbel noise": (coordinates("stochastic-rank-gumbel"), exact),
    }
    for way, (sampler, truth) in samplers.items():
        for samples in (10, 100, 1000, 10_000):
            one = partial(sampler, scores, WEIGHTS, slope, samples)
            error = float(np.sqrt(np.mean([relative(one(), truth) ** 2 for _ in range(5)])))
            points.append({"way": way, "error": error, "share": 1})
            calls.append(one)
    for point, seconds in zip(points, best_seconds(*calls, repeats=25), strict=True):
        point["ms"] = seconds / point["share"] * 1e3
    return points


def power(title: str) -> alt.Axis:
    """An axis of powers of ten."""
    return alt.Axis(title=title, format=".0e", tickCount=6, labelOverlap=True)


def chart_of_nodes(points: Points) -> alt.Chart:
    """Error of the gradient against nodes."""
    chart = alt.Chart(alt.Data(values=points), width=460, height=300)
    return chart.mark_line(point=True).encode(
        x=alt.X("nodes:Q", title="nodes (points in time) a query", scale=alt.Scale(zero=False)),
        y=alt.Y(
            "error:Q", scale=alt.Scale(type="log"), axis=power("relative error of the gradient")
        ),
        color=alt.Color("scores:N", title="documents, spread of scores", sort=None),
    )


def chart_of_time(points: Points) -> alt.Chart:
    """Time a query against error of the gradient."""
    chart = alt.Chart(alt.Data(values=points), width=460, height=300)
    return chart.mark_line(point=True).encode(
        x=alt.X(
            "error:Q", scale=alt.Scale(type="log"), axis=power("relative error of the gradient")
        ),
        y=alt.Y(
            "ms:Q",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(title="milliseconds a query", format="~g", tickCount=6),
        ),
        color=alt.Color("way:N", title="gradient by", sort=None),
        order=alt.Order("error:Q"),
    )


def main() -> None:
    """Measure and write both charts as SVG."""
    charts = {
        "error-against-nodes": chart_of_nodes(error_against_nodes()),
        "time-against-error": chart_of_time(time_against_error()),
    }
    for name, chart in charts.items():
        styled = chart.configure_view(strokeOpacity=0).configure(background="white")
        styled.save(HERE / f"{name}.svg")


if __name__ == "__main__":
    main()
