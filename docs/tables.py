"""Tables of parts in the docs, from the tables in the code: `python docs/tables.py` rewrites them.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; a test says whether it is current.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from saferank.clicks import USERS
from saferank.estimators import ESTIMATORS
from saferank.learning import METHODS
from saferank.objectives import OBJECTIVES

DOCS = Path(__file__).parent


def markdown(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    lines = [[*header], ["---" for _ in header], *[[str(cell) for cell in row] for row in rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def summary(part: Callable[..., object]) -> str:
    """The first sentence of a part's docstring."""
    first = " ".join((part.__doc__ or "").partition("\n\n")[0].split())
    drawn = re.sub(r":math:`([^`]*)`", r"$\1$", first).replace("ctr", r"\text{ctr}")
    return drawn.removesuffix(".").replace("|", "/")


def methods() -> str:
    """Methods: which parts they are made of."""
    rows = []
    for name, recipe in METHODS.items():
        objective = str(recipe.objective)
        delta = OBJECTIVES[objective].delta if recipe.delta is None else recipe.delta
        parts = (f"`{recipe.gain}`", f"`{objective}`", delta, recipe.weights, recipe.start)
        rows.append((f"`{name}`", *parts))
    return markdown(("method", "gain", "objective", "delta", "rank weights", "starts from"), rows)


def estimators() -> str:
    """Estimators, and whether rankers can be evaluated by them."""
    rows = [
        (f"`{name}`", summary(one.documents), one.needs, "yes" if one.sessions else "no")
        for name, one in ESTIMATORS.items()
    ]
    return markdown(("gain", "is", "needs", "evaluates rankers"), rows)


def objectives() -> str:
    """Objectives, with the delta that they have unless another is given."""
    rows = [(f"`{name}`", summary(entry.build), entry.delta) for name, entry in OBJECTIVES.items()]
    return markdown(("objective", "maximises", "delta"), rows)


def users() -> str:
    """Simulated users: how likely they click what they look at."""
    rows = []
    for name, make in USERS.items():
        made = make(3)
        none, all_ = np.asarray(made.probability(np.array([0.0, 1.0])))
        stops = "no" if made.patience is None else "yes"
        rows.append((f"`{name}`", _numbers(all_), _numbers(none), stops))
    header = ("users", "P(click), R = 1, ranks 1-3", "R = 0", "a click can end the session")
    return markdown(header, rows)


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


TABLES = {"methods": methods, "estimators": estimators, "objectives": objectives, "users": users}
_BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.S)


def current(text: str) -> str:
    """A page with its tables as the code has them now."""
    return _BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}\n{found[3]}", text)


def pages() -> list[Path]:
    """The pages that have tables."""
    return [page for page in sorted(DOCS.glob("*.md")) if _BLOCK.search(page.read_text("utf-8"))]


def main() -> None:
    """Rewrite the tables of all pages."""
    for page in pages():
        page.write_text(current(page.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"{page.name}: current")


if __name__ == "__main__":
    main()
