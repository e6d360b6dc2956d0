"""Links within the pages lead somewhere: to a file, and to a heading of it where they name one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import DOCS, PAGES, ROOT

FENCED = re.compile(r"^(`{3,}).*?^\1", re.S | re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")
OUTSIDE = ("http://", "https://", "mailto:")
WRITTEN = {path.with_suffix(".md") for path in (DOCS / "notebooks").glob("*.py")}
"""Pages that the site's build makes of notebooks."""


def text_of(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """Targets of a page's links and pictures that are within the repository."""
    return [link for link in LINK.findall(text_of(page)) if not link.startswith(OUTSIDE)]


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub and the site have them."""
    headings = re.findall(r"^#{1,6} +(.+?) *$", text_of(page), re.M)
    plain = [re.sub(r"\]\([^)]*\)|[`*\[\]]", "", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def dead(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    missing = []
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if target in WRITTEN:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link)
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert dead(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_has_one_title(page: Path) -> None:
    includes = page.name == "changelog.md"
    assert len(re.findall(r"^# ", text_of(page), re.M)) == (0 if includes else 1)


def test_dead_links_are_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# `One` thing\n[a](#one-thing) [b](#two) [c](none.md) [d](page.md#one-thing)\n"
    )
    assert dead(page) == ["#two", "none.md"]
    assert sum(len(links(each)) for each in PAGES) > 80
