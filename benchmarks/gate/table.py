"""Verdicts against the truth, in one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

Record = dict[str, Any]

WORSE, BETTER = -1.0, 5.0
"""Per cent of clicks: what must not be shipped, and what should be."""


def _randomised(record: Record) -> bool:
    return bool(record["shop"]["production"] != "sorted")


def _scans(record: Record) -> bool:
    return bool(record["shop"]["users"] == "cascade")


def _misfit(record: Record) -> bool:
    return bool(((record.get("bias") or {}).get("misfit") or {}).get("found"))


GROUPS: tuple[tuple[str, Callable[[Record], bool]], ...] = (
    ("all", lambda _: True),
    ("dr", lambda r: r["method"] == "dr"),
    ("prpo", lambda r: r["method"] == "prpo"),
    ("keep", lambda r: r["method"] == "keep"),
    ("production sorts", lambda r: r["shop"]["production"] == "sorted"),
    ("sorts with noise", lambda r: r["shop"]["production"] == "noisy"),
    ("samples", lambda r: r["shop"]["production"] == "sampled"),
    ("drifts", lambda r: r["shop"]["production"] == "drift"),
    ("uniform", lambda r: r["shop"]["production"] == "uniform"),
    ("any but sorted, users as modelled", lambda r: _randomised(r) and not _scans(r)),
    ("users scan and stop", lambda r: _scans(r)),
    ("click model known to misfit", lambda r: bool(_misfit(r))),
    ("policy told, not sorted", lambda r: r.get("policy") in ("sampled", "uniform")),
    ("scores known to misfit", lambda r: r.get("policy") == "observed"),
)
COLUMNS = (
    "verdict", "cases", "refused", "shipped", "worse", "worse shipped", "wrong of shipped",
    "better", "better shipped", "certified gain", "true gain", "clicks in interval",
    "utility in interval", "promise broken",
)  # fmt: skip


def rows(records: Iterable[Record]) -> list[list[str]]:
    """The table's rows: by kind of verdict, then by method and by what the shop is like."""
    kept = list(records)
    found = []
    for check in dict.fromkeys(record["check"] for record in kept):
        mine = [record for record in kept if record["check"] == check]
        for name, belongs in GROUPS:
            group = [record for record in mine if belongs(record)]
            if group:
                found.append([f"{check}: {name}", *_figures(group)])
    return found


def _figures(group: Sequence[Record]) -> list[str]:
    known = [r for r in group if "truth" in r]
    judged = [r for r in known if r.get("ship") is not None]
    shipped = [r for r in judged if r["ship"]]
    worse = [r for r in known if r["truth"]["percent"] < WORSE]
    better = [r for r in known if r["truth"]["percent"] >= BETTER]  # refused: not shipped
    wrong, right = ([r for r in some if r.get("ship")] for some in (worse, better))
    gains = [gain for r in shipped if (gain := certified_percent(r)) is not None]
    return [
        str(len(group)),
        str(len(group) - len(judged)),
        str(len(shipped)),
        str(len(worse)),
        f"{len(wrong)} ({_share(len(wrong), len(known))} of all)",
        _share(len(wrong), len(shipped)),
        str(len(better)),
        _share(len(right), len(better)),
        f"{median(gains):+.1f} %" if gains else "",
        f"{median(r['truth']['percent'] for r in shipped):+.1f} %" if shipped else "",
        _covered(judged, lambda r: r["truth"]["difference"], "clicks"),
        _covered(judged, lambda r: (r.get("utility") or {}).get("difference")),
        _mean(r["promise_broken"] for r in shipped if r.get("promise_broken") is not None),
    ]


def certified_percent(record: Record) -> float | None:
    """The least change of clicks in per cent of production's, as the verdict has it."""
    bound, production = record.get("clicks_at_least"), record.get("clicks_of_production")
    return None if bound is None or not production else float(100 * bound / production)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else ""


def _mean(values: Iterable[float]) -> str:
    kept = list(values)
    return f"{sum(kept) / len(kept):.0%}" if kept else ""


def _covered(
    group: Sequence[Record], truth: Callable[[Record], float | None], name: str = "difference"
) -> str:
    """How many intervals of what would be served hold the truth."""
    hits = [
        one["lower"] <= value <= one["upper"]
        for r in group
        if (one := r.get(name)) and one["lower"] is not None and (value := truth(r)) is not None
    ]
    return f"{sum(hits)} of {len(hits)}" if hits else ""


def markdown(records: Iterable[Record]) -> str:
    """The table for a document."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(row) + " |" for row in rows(records)]
    return "\n".join(lines)


def wrong(records: Iterable[Record]) -> list[str]:
    """The cases to look at: what was shipped and truly loses, in words."""
    return [
        f"{r['world']} {r['method']} {r['check']}: truly {r['truth']['percent']:+.1f} %; "
        f"{r['sentence']}"
        for r in records
        if r.get("ship") and r.get("truth", {}).get("percent", 0.0) < WORSE
    ]


def by_world(records: Iterable[Record]) -> list[str]:
    """Worlds in which a method found a truly better ranker: in how many was one of them shipped?"""
    kept = [r for r in records if _randomised(r) and not _scans(r) and "truth" in r]
    lines = []
    for check in dict.fromkeys(record["check"] for record in kept):
        better = [r for r in kept if r["check"] == check and r["truth"]["percent"] >= BETTER]
        worlds = {r["world"] for r in better}
        shipped = {r["world"] for r in better if r.get("ship")}
        lines.append(f"{check}: {len(shipped)} of {len(worlds)} worlds")
    return lines


def frictions(records: Iterable[Record]) -> dict[str, int]:
    """What got in the way, and in how many worlds."""
    seen = {(r["world"], text) for r in records for text in _texts(r)}
    counted: dict[str, int] = {}
    for _, text in seen:
        counted[text] = counted.get(text, 0) + 1
    return dict(sorted(counted.items(), key=lambda pair: -pair[1]))


def _texts(record: Record) -> list[str]:
    texts = list(record.get("frictions", []))
    if record.get("refused"):
        texts.append(f"refused at {record.get('at', 'count')}: {record['refused']}")
    return [_general(text) for text in texts]


def _general(text: str) -> str:
    """A friction without what differs from world to world: folders, numbers, names."""
    text = re.sub(r"\S*/gate-[^/]*/", "", text.replace("saferank: ", ""))
    text = text.split(" (")[0].split(", for example")[0]
    return re.sub(r"\d[\d,.]*\d|\d(?=[\d, ])", "N", text)[:140]
