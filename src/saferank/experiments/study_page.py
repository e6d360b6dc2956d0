"""Figures and claims as files, and all of them in one page that needs nothing else."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from saferank._core.charts import save_chart
from saferank._core.files import atomic_file, write_json
from saferank._core.marks import mark
from saferank.experiments.claim_tests import Finding
from saferank.experiments.claims import Claim, judge
from saferank.experiments.figure_drawing import draw
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
    charts = {figure: draw(figure, results) for figure in figures}
    for figure, chart in charts.items():
        for ending in ENDINGS:
            save_chart(chart, target / f"figure-{figure}.{ending}")
    claims = judge(results, tuple(figures))
    write_json(target / "claims.json", {"claims": [claim_record(*pair) for pair in claims]})
    _write(target / "claims.md", claims_table(claims))
    images = [
        {"number": figure, "image": _image(target / f"figure-{figure}.svg")} for figure in figures
    ]
    _write(target / "index.html", _page(results, name, images, claims))
    made = tuple(target / f"figure-{figure}.svg" for figure in figures)
    return Written(target / "index.html", made, claims)


def claim_record(claim: Claim, finding: Finding) -> dict[str, Any]:
    """A claim and its finding for JSON."""
    facts = {name: getattr(claim, name) for name in ("figure", "sentence", "test", "why", "ours")}
    return facts | asdict(finding)


def claims_table(claims: Judged) -> str:
    """The claims as a Markdown table; why, where a claim does not hold."""
    lines = ["| figure | claim | result | numbers |", "| --- | --- | --- | --- |"]
    for claim, finding in claims:
        why = f" {claim.why}" if claim.why and finding.verdict != "holds" else ""
        cells = (str(claim.figure), claim.sentence, finding.verdict, f"{finding.numbers}.{why}")
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines) + "\n"


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


def _page(results: Results, name: str, images: Sequence[dict[str, Any]], claims: Judged) -> str:
    environment = Environment(
        loader=PackageLoader("saferank.experiments", "."),
        autoescape=True,
        undefined=StrictUndefined,
    )
    tally = Counter(finding.verdict for _, finding in claims)
    return environment.get_template("page.html").render(
        name=name,
        settings=settings_sentence(results),
        errors=list(results.errors.values()),
        figures=images,
        claims=claims,
        tally="; ".join(f"{count} {verdict}" for verdict, count in tally.items()) + ".",
    )


def _image(path: Path) -> str:
    """A file as a data address: scripts in it, if any, do not run, and the page is one file."""
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"


def _write(path: Path, text: str) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
        mark(temporary, path.suffix[1:])
