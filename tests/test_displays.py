"""Results show themselves in notebooks: escaped, with the numbers that they hold."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

import saferank as sr


class Text(HTMLParser):
    """The text of a page, and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: set[str] = set()
        self.feed(html)

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)


@pytest.fixture(scope="module")
def shown() -> dict[str, object]:
    world = sr.data.synthetic("small", queries=30, seed=0).train
    click_model, production = sr.clicks.trust_bias(), np.zeros(world.documents)
    counts = sr.clicks.simulate(world, production, click_model, sessions=3000, seed=0)
    settings = sr.learning.Settings(steps=5)
    ranker = sr.learn(
        world, counts, click_model, method="ips", scorer="linear", production=production,
        settings=settings, seed=7,
    )  # fmt: skip
    assessment = sr.assess(ranker, world, counts=counts, production=production)
    return {
        "counts": counts,
        "ranker": ranker,
        "certificate": assessment.certificate,
        "assessment": assessment,
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("counts", "3,000"),
        ("ranker", "Ranker: ips"),
        ("certificate", "rank weights"),
        ("assessment", "assumes"),
    ],
)
def test_what_is_shown(shown: dict[str, object], name: str, words: str) -> None:
    page = Text(shown[name]._repr_html_())  # type: ignore[attr-defined]
    assert any(words in text for text in page.text)
    assert page.tags == {"strong", "table", "tr", "th", "td"}


def test_the_sentence_is_the_decisions(shown: dict[str, object]) -> None:
    assessment = shown["assessment"]
    assert isinstance(assessment, sr.safety.Assessment)
    assert Text(assessment._repr_html_()).text[0] == assessment.decision.sentence
