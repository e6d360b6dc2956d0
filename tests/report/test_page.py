import base64
import html
import itertools
import json
import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from devtools import FLAGS, browser, tab

from saferank.clicks import simulate, trust_bias
from saferank.data import synthetic
from saferank.learning import Provenance
from saferank.report import write_page
from saferank.report.page import render
from saferank.safety import Comparison, Rule, assess
from saferank.safety.comparing import Candidate
from saferank.safety.doubt_words import percent
from saferank.safety.unchecked import not_checked

NASTY = '<script>document.title="broken"</script>'
USERS = trust_bias()
CARD = Provenance(
    method="prpo",
    recipe={"gain": "dr", "note": NASTY, "settings": {"steps": 3}},
    seed=7,
    sessions=3000,
    weights=USERS.exposure_weights.tolist(),
    click_model=USERS.to_dict(),
    data="fingerprint",
    history={"steps": [0, 1, 2], "values": [0.1, 0.3, 0.35]},
)


@pytest.fixture(scope="module")
def assessment():
    data = synthetic("small", queries=40, seed=0).train
    old = np.random.default_rng(0).normal(size=data.documents)
    counts = simulate(data, old, USERS, sessions=3000, seed=0, judge=0)
    names = [NASTY, *(f"query {i}" for i in range(1, data.queries))]
    data = replace(data, query_ids=np.array(names), production=old)
    counts = replace(counts, sessions=counts.sessions + (np.arange(data.queries) == 0) * 999)
    new = 0.5 * old + data.labels
    return assess(new, data, counts=counts, click_model=USERS, rule=Rule(guard=True))


def test_the_page_says_what_the_record_says(assessment):
    page = render(assessment, CARD, "demo/<b>prpo</b>")
    assert "<strong>Ship with guard 0.9</strong>" in page
    clicks = assessment.clicks
    assert f"{100 * clicks.share(clicks.difference.estimate):+.1f} %" in page
    assert f"{100 * clicks.share(clicks.bound.lower):+.1f} %" in page
    assert "fingerprint" in page
    for sentence in assessment.decision.assumes:
        assert sentence in html.unescape(page)
    assert len(re.findall(r'<div class="chart"', page)) == 6
    assert page.count("<svg") >= 6  # a still picture of each chart, for print and no JavaScript
    assert page == render(assessment, CARD, "demo/<b>prpo</b>")


def test_the_page_leads_with_doubt_and_says_what_was_not_checked(assessment):
    page = html.unescape(render(assessment, CARD, "run"))
    curve = assessment.doubts
    assert f"<dd>{percent(curve.share)}<small>if the click model is wrong by up to 20 %" in page
    assert f"{percent(curve.shares[2])} at a doubt of 10 %" in page  # read out with the chart
    for sentence in not_checked(assessment):
        assert sentence in page
    sections = re.findall(r'<section aria-labelledby="(\w+)"', page)
    assert sections == ["sure", "lose", "guard", "rests"]
    for name in sections:
        assert f'<h2 id="{name}">' in page
    assert page.index('id="chart-doubt"') < page.index('id="chart-change"')


def test_candidates_are_listed_where_there_were_any(assessment):
    candidates = (
        Candidate("a", 1.1, 0.1, 0.05, 0.15, 0.06),
        Candidate(NASTY, refused="too few sessions"),
    )
    comparison = Comparison(candidates, 1.0, 500, 0.95, assessment.fit)
    again = Comparison.from_dict(json.loads(json.dumps(comparison.to_dict())))
    assert again == comparison
    page = render(assessment, CARD, "run", again)
    assert "<td>+10.0 %</td><td>+5.0 to +15.0 %</td><td>+6.0 %</td>" in page
    assert "the log cannot tell: too few sessions" in page
    assert NASTY not in page


def test_values_show_as_text(assessment):
    page = render(assessment, CARD, NASTY)
    assert NASTY not in page
    assert "&lt;script&gt;document.title" in page
    specs = re.search(r'id="specs">(.*?)</script>', page, re.DOTALL)[1]
    assert len(json.loads(specs)) == 6
    assert "<" not in specs


def test_without_counts_and_history_there_are_fewer_charts(tmp_path):
    data = synthetic("small", queries=10, seed=0).train
    found = assess(np.zeros(data.documents), data, production=np.zeros(data.documents))
    path = write_page(tmp_path / "page.html", found, replace(CARD, history={}, click_model=None))
    page = path.read_text(encoding="utf-8")
    assert "<strong>Ship</strong>" in page
    assert len(re.findall(r'<div class="chart"', page)) == 2


PROBE = """<script>addEventListener("load", () => { const wait = setInterval(() => {
  if (!document.documentElement.dataset.charts) return;
  clearInterval(wait);
  const box = document.getElementById("verdict").getBoundingClientRect();
  console.log("probe " + JSON.stringify({ width: innerWidth, height: innerHeight,
    bottom: box.bottom, right: document.documentElement.scrollWidth, title: document.title,
    drawn: document.querySelectorAll(".chart.live .marks svg, .chart.live svg.marks").length,
    fetched: performance.getEntriesByType("resource").length }).replaceAll('"', "'"));
}, 50); });</script></body>"""


def test_chromium_draws_the_page_and_fetches_nothing(assessment, tmp_path):
    chromium = browser()
    page = PROBE.join(render(assessment, CARD, "run").rsplit("</body>", 1))
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    frames = "".join(
        f'<iframe src="page.html" width="{w}" height="{h}" style="border:0"></iframe>'
        for w, h in ((1280, 800), (390, 844))
    )
    (tmp_path / "both.html").write_text(f"<!doctype html>{frames}")
    done = subprocess.run(
        [
            chromium, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}",
            "--enable-logging=stderr", "--virtual-time-budget=30000", "--window-size=1700,900",
            "--dump-dom", (tmp_path / "both.html").as_uri(),
        ],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    said = re.findall(r'CONSOLE[^"]*"(.*)", source', done.stderr)
    probes = [json.loads(line[6:].replace("'", '"')) for line in said if line.startswith("probe")]
    assert [line for line in said if not line.startswith("probe")] == []
    assert sorted(probe["width"] for probe in probes) == [390, 1280], done.stderr[-2000:]
    for probe in probes:
        assert probe["bottom"] <= probe["height"]
        assert probe["right"] <= probe["width"]
        assert probe["drawn"] == 6
        assert probe["fetched"] == 0
        assert probe["title"] == "Ship: run"


FOCUSED = """(() => { const it = document.activeElement, box = it.getBoundingClientRect();
  return { tag: it.tagName, text: it.textContent.trim(), left: box.left,
    outline: getComputedStyle(it).outlineStyle, open: it.parentElement.open }; })()"""


def test_keys_reach_everything_that_can_be_used(assessment, tmp_path):
    """Tab, Enter and Space in Chromium: the skip link, every summary, and nothing that traps."""
    page = write_page(tmp_path / "page.html", assessment, CARD, "run")
    with tab(page, tmp_path / "profile") as opened:
        opened.press("Tab")
        first = opened.ask(FOCUSED)
        assert first["text"] == "To the content"
        assert first["left"] >= 0  # it is off the page until it has the focus
        opened.press("Enter")
        assert opened.ask("location.hash") == "#main"
        reached = []
        for _ in range(20):
            opened.press("Tab")
            now = opened.ask(FOCUSED)
            if now["tag"] != "SUMMARY":
                break
            assert now["outline"] == "solid"
            opened.press("Enter")
            assert opened.ask(FOCUSED)["open"] is not now["open"]
            opened.press(" ")
            assert opened.ask(FOCUSED)["open"] is now["open"]
            reached.append(now["text"])
        assert now["tag"] == "BODY"  # past the last one, out of the page
        assert len(reached) == opened.ask("document.querySelectorAll('summary').length") == 3
        assert reached[-1] == "All settings"
        opened.press("Tab", shift=True)
        assert opened.ask(FOCUSED)["text"] == "All settings"


def test_print_has_all_charts_and_every_setting(assessment, tmp_path):
    page = write_page(tmp_path / "page.html", assessment, CARD, "run")
    with tab(page, tmp_path / "profile") as opened:
        opened.send("Emulation.setEmulatedMedia", media="print")
        opened.send(
            "Emulation.setDeviceMetricsOverride", width=720, height=1000, deviceScaleFactor=1,
            mobile=False,
        )  # fmt: skip
        seen = "[...document.querySelectorAll('{}')].map(e => e.getBoundingClientRect().height)"
        charts = opened.ask(seen.format(".chart svg"))
        assert len(charts) == 6
        assert min(charts) > 50
        settings = opened.ask(seen.format("details:not(.queries) table"))
        assert min(settings) > 50  # closed on the screen, told on paper
        assert max(opened.ask(seen.format(".queries"))) == 0
        assert opened.ask("document.documentElement.scrollWidth") <= 720
        printed = opened.send("Page.printToPDF")["data"]
        assert base64.b64decode(printed).startswith(b"%PDF")


def luminance(colour):
    """Relative luminance of WCAG 2, from #rgb or #rrggbb."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_every_colour_of_text_can_be_read(assessment):
    """Contrast of at least 4.5 on page and cards, in light and dark, amber verdicts included."""
    themes = re.findall(r":root \{([^}]*)\}", render(assessment, CARD, "demo"))
    assert len(themes) == 2
    for theme in themes:
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]+)", theme))
        for text in ("ink", "soft", "yes", "no", "amber"):
            for ground in ("page", "card", "tint") if text in ("ink", "soft") else ("card",):
                pair = sorted((luminance(colours[text]), luminance(colours[ground])))
                assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (text, ground)


def test_a_screen_reader_and_a_keyboard_find_their_way(assessment):
    page = render(assessment, CARD, "demo")
    for landmark in ("header", "main", "footer"):
        assert page.count(f"<{landmark}") == 1
    assert '<a class="skip" href="#main">' in page
    assert '<main id="main">' in page
    assert re.search(r'<html lang="\w+"', page)
    drawn = re.findall(r'role="img" aria-label="([^"]*)"', page)
    assert drawn
    assert all(len(words) > 20 for words in drawn)
    levels = [int(level) for level in re.findall(r"<h([1-6])\b", page)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    names = dict(re.findall(r'<(?:h2|h3)[^>]* id="([^"]+)">([^<]*)<', page))
    assert all(names.get(each) for each in re.findall(r'aria-labelledby="([^"]+)"', page))
