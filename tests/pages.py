"""Commands of pages: read from shell blocks, run as they stand, compared with what follows.

A block is `console` (commands after `$ `, then what they say) or `sh` (a command per line). A
command whose comment says what it `needs` (a cluster, a collection, minutes) is not run.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from saferank.cli.app import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```", re.S | re.M)
SHELLS = ("console", "sh")


@dataclass(frozen=True)
class Command:
    """A command as it stands on a page, its comment, and the lines that it must say."""

    text: str
    comment: str
    said: tuple[str, ...] = ()

    @property
    def is_run(self) -> bool:
        """Whether tests can run it: ours, and in need of nothing."""
        return self.text.startswith("saferank ") and "needs " not in self.comment


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of every fenced block of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def shell_commands(page: Path) -> list[Command]:
    """Every command of a page's shell blocks."""
    commands: list[Command] = []
    for language, text in blocks(page):
        lines = text.replace("\\\n", " ").splitlines() if language in SHELLS else []
        for line in lines:
            if language == "sh" or line.startswith("$ "):
                command, _, comment = line.removeprefix("$ ").partition(" #")
                commands.append(Command(command.strip(), comment.strip()))
            elif line:
                last = commands.pop()
                commands.append(Command(last.text, last.comment, (*last.said, line)))
    return [command for command in commands if command.text]


def console_commands(page: Path) -> list[tuple[str, list[str]]]:
    """The commands of a page that tests run, each with the lines that follow it."""
    return [(each.text, list(each.said)) for each in shell_commands(page) if each.is_run]


def words_of(command: str) -> list[str]:
    """A command as a shell hands it on: without quotes, names of files in place of patterns."""
    words = shlex.split(command)
    return [name for word in words for name in _files(word) or [word]]


def _files(pattern: str) -> list[str]:
    return sorted(map(str, Path().glob(pattern))) if "*" in pattern else []


def run_quietly(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one command of a page; "do not ship" and "continue" are no failures."""
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(sys, "argv", words_of(command))
    with pytest.raises(SystemExit) as ended:
        main()
    watching = command.startswith("saferank watch")
    assert ended.value.code in ((None, 0, 3, 4) if watching else (None, 0, 3)), command


def run_command(
    command: str,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Run one command of a page; it must say what the page says."""
    run_quietly(command, monkeypatch)
    said = capsys.readouterr()
    text = " ".join(re.sub("[│┃]", " ", said.out + said.err).split())
    for line in expected:
        assert line in text, f"{command} should say: {line}"


def _all_pages() -> list[Path]:
    """Pages that people wrote: the site's, and those of the repository's face."""
    made = {path.with_suffix(".md") for path in (DOCS / "notebooks").glob("*.py")}
    site = [page for page in DOCS.rglob("*.md") if page not in made]
    return sorted([*site, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"])


PAGES = _all_pages()
OWN_FILES = [DOCS / "tutorials" / name for name in ("first-ranker.md", "fixed-ranking.md")]
"""Tutorials that make their own files."""
OWN_TESTS = {
    DOCS / "real-case.md": "test_real_case",
    DOCS / "serving.md": "test_serving_page",
    DOCS / "your-own-log.md": "test_your_own_log",
}
"""Pages that a test of their own runs."""
WITH_FILES = [
    page for page in PAGES
    if console_commands(page) and page not in OWN_FILES and page not in OWN_TESTS
]  # fmt: skip
"""All others with commands go on from the files of the first tutorial."""
