"""Figures and claims as files, and all of them in one page that needs nothing else."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from saferank._core.charts import save_chart
from saferank._core.files import atomic_file, write_json
from saferank._core.marks import mark
from saferank.experiments.claim_tests import Finding
from saferank.experiments.claims import Claim, judge
from saferank.experiments.figure_drawing import draw, draw_columns
from saferank.experiments.results import Results

ENDINGS = ("html", "svg", "png")
Judged = list[tuple[Claim, Finding]]


@dataclass(frozen=True)
class Written:
    """What was written, and what the claims came to."""

    page: Path
    figures: tuple[Path, ...]
    claims: Judged

    def tally(self) -> dict[str, int]:
        """How many claims hold, do not, or cannot be told."""
        return dict(Counter(finding.verdict for _, finding in self.claims))


def file_names(figures: Sequence[int]) -> list[str]:
    """What `write_page` writes.

    >>> file_names([2])
    ['figure-2.html', 'figure-2.svg', 'figure-2.png', 'claims.json', 'claims.md', 'index.html']
    """
    drawn = [f"figure-{figure}.{ending}" for figure in figures for ending in ENDINGS]
    return [*drawn, "claims.json", "claims.md", "index.html"]


def write_page(results: Results, figures: Sequence[int], name: str, folder: str | Path) -> Written:
    """Write every figure (HTML, SVG, PNG), the claims (JSON, Markdown) and the page."""
    target = Path(folder)
    claims = judge(results, tuple(figures))
    _write_charts({figure: draw(figure, results) for figure in figures}, target)
    write_json(target / "claims.json", {"claims": [claim_record(*pair) for pair in claims]})
    _write(target / "claims.md", claims_table(claims))
    _write(target / "index.html", _page({name: results}, figures, {name: claims}, target))
    return Written(target / "index.html", _images(figures, target), claims)


def write_columns(
    results: Mapping[str, Results], figures: Sequence[int], folder: str | Path
) -> tuple[Path, ...]:
    """Write figures, claims (Markdown) and a page with a column per collection.

    Returns
    -------
    tuple of Path
        The figures. Figure 1, which needs no results, has no columns.
    """
    target = Path(folder)
    claims = {name: judge(its, tuple(figures)) for name, its in results.items()}
    first = next(iter(results.values()))
    charts = {n: draw(n, first) if n == 1 else draw_columns(n, results) for n in figures}
    _write_charts(charts, target)
    _write(target / "claims.md", columns_table(claims))
    _write(target / "index.html", _page(results, figures, claims, target))
    return _images(figures, target)


def _write_charts(charts: Mapping[int, Any], target: Path) -> None:
    for figure, chart in charts.items():
        for ending in ENDINGS:
            save_chart(chart, target / f"figure-{figure}.{ending}")


def _images(figures: Sequence[int], target: Path) -> tuple[Path, ...]:
    return tuple(target / f"figure-{figure}.svg" for figure in figures)


def claim_record(claim: Claim, finding: Finding) -> dict[str, Any]:
    """A claim and its finding for JSON."""
    facts = {name: getattr(claim, name) for name in ("figure", "sentence", "test", "why", "ours")}
    return facts | asdict(finding)


def claims_table(claims: Judged) -> str:
    """The claims as a Markdown table; why, where a claim does not hold."""
    rows = [("figure", "claim", "result", "numbers")]
    for claim, finding in claims:
        why = f" {claim.why}" if claim.why and finding.verdict != "holds" else ""
        numbers = f"{finding.numbers}.{why}"
        rows.append((str(claim.figure), claim.sentence, finding.verdict, numbers))
    return _markdown(rows)


def columns_table(claims: Mapping[str, Judged]) -> str:
    """The claims as a Markdown table with a column per collection."""
    rows = [("figure", "claim", *claims)]
    for claim, findings in _rows(claims):
        cells = (f"**{finding.verdict}**: {finding.numbers}" for finding in findings)
        rows.append((str(claim.figure), claim.sentence, *cells))
    return _markdown(rows)


def _markdown(rows: Sequence[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]) + "\n"


def _rows(claims: Mapping[str, Judged]) -> list[tuple[Claim, list[Finding]]]:
    """Each claim with what every collection says of it."""
    return [
        (judged[0][0], [finding for _, finding in judged])
        for judged in zip(*claims.values(), strict=True)
    ]


def settings_sentence(results: Results) -> str:
    """The study in a sentence."""
    study = results.study
    grid = ", ".join(f"{n:.0e}".replace("e+0", "e").replace("e+", "e") for n in study.sessions)
    return (
        f"N = {grid}; {study.seeds} runs; production trained on "
        f"{study.conditions.fraction:.0%} of the training queries (figure 7: {study.strong:.0%}); "
        f"K = {study.conditions.ranks}; scorer {study.conditions.scorer}, at most "
        f"{study.conditions.settings.steps} steps; {len(results.measures)} rankers."
    )


def _page(
    results: Mapping[str, Results],
    figures: Sequence[int],
    claims: Mapping[str, Judged],
    target: Path,
) -> str:
    environment = Environment(
        loader=PackageLoader("saferank.experiments", "."),
        autoescape=True,
        undefined=StrictUndefined,
    )
    collections = [
        {
            "name": name,
            "settings": settings_sentence(its),
            "errors": list(its.errors.values()),
            "tally": _tally(claims[name]),
        }
        for name, its in results.items()
    ]
    images = [
        {"number": figure, "image": _image(path)}
        for figure, path in zip(figures, _images(figures, target), strict=True)
    ]
    return environment.get_template("page.html").render(
        collections=collections, figures=images, claims=_rows(claims)
    )


def _tally(claims: Judged) -> str:
    tally = Counter(finding.verdict for _, finding in claims)
    return "; ".join(f"{count} {verdict}" for verdict, count in tally.items()) + "."


def _image(path: Path) -> str:
    """A file as a data address: scripts in it, if any, do not run, and the page is one file."""
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"


def _write(path: Path, text: str) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
        mark(temporary, path.suffix[1:])
