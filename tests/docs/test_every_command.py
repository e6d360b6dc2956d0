"""Every command on every page is run by a test, or says what it needs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from cli.test_first_contact import COMMANDS
from pages import DOCS, OWN_FILES, OWN_TESTS, PAGES, ROOT, SHELLS, WITH_FILES, blocks
from pages import shell_commands as commands_of

NEEDS = r"needs (a cluster|a database|the collections?|ten minutes)"
ELSEWHERE = {
    "make demo": (".github/workflows/test.yml", "make demo"),
    "make test": ("Makefile", "check: lint docs test"),
    "pip install .": (".github/workflows/test.yml", "pip install ."),
    "pip install 'saferank[serve]'": (".github/workflows/test.yml", "pip install '.[serve]'"),
    ". .venv/bin/activate": ("Makefile", "-m venv .venv"),
    "curl localhost:8000/": ("tests/docs/test_serving_page.py", "post(rank, port)"),
}
"""Beginnings of commands that are not ours, and the file and the text that do them."""
WORDS = ("saferank", "make", "pip", "python", "curl", "torchrun", "docker", "uv", "spark-submit")
SKETCHES = {DOCS / "serving.md": "tests/serving/test_onnx_policy.py"}
"""Pages with Python that is no doctest, and the test that does the same."""
INLINE = re.compile(r"(?<!`)`((?:saferank|make|python) [^`]+)`(?!`)")


def title(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_commands_stand_in_shell_blocks(page: Path) -> None:
    for language, text in blocks(page):
        starts = {line.removeprefix("$ ").partition(" ")[0] for line in text.splitlines()}
        assert language in SHELLS or not starts & set(WORDS), text
        if language == "python" and page not in SKETCHES:
            assert ">>>" in text, text


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)], ids=title)
def test_every_command_is_run_or_says_what_it_needs(page: Path) -> None:
    tested = {*OWN_FILES, *OWN_TESTS, *WITH_FILES}
    for command in commands_of(page):
        known = any(command.text.startswith(each) for each in ELSEWHERE)
        needs = re.search(NEEDS, command.comment)
        assert needs or known or (command.is_run and page in tested), command


def test_what_is_done_elsewhere_is_done_there() -> None:
    for place, text in ELSEWHERE.values():
        assert text in (ROOT / place).read_text(encoding="utf-8"), text
    for page, name in OWN_TESTS.items():
        assert page.name in (ROOT / "tests" / "docs" / f"{name}.py").read_text(encoding="utf-8")
    assert all((ROOT / test).exists() for test in SKETCHES.values())


def options_of(words: list[str]) -> set[str] | None:
    """Options of the command that words begin with, or None."""
    for length in (2, 1):
        command = COMMANDS.get(" ".join(words[:length]))
        if command is not None:
            named = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
            return named | {"--help"}
    return None


INLINE_COMMANDS = sorted(
    {found for page in PAGES for found in INLINE.findall(page.read_text(encoding="utf-8"))}
)


@pytest.mark.parametrize("command", INLINE_COMMANDS)
def test_commands_in_sentences_exist(command: str) -> None:
    tool, *words = command.split()
    if tool == "saferank":
        if (words[0] in ("data", "logs") and len(words) == 1) or words[0].startswith("-"):
            return
        options = options_of(words)
        assert options is not None
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= options
    elif tool == "make":
        target = next(word for word in words if "=" not in word)
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
        topic = next((word[6:] for word in words if word.startswith("TOPIC=")), "")
        if re.fullmatch(r"\w+", topic):
            assert (ROOT / "benchmarks" / f"topic_{topic}.py").exists()
    elif words[0] == "-m":
        assert importlib.util.find_spec(words[1]) is not None
    else:
        assert words[0].startswith("-") or (ROOT / words[0]).exists()


def test_there_is_something_to_prove() -> None:
    assert sum(len(commands_of(page)) for page in PAGES) > 60
    assert len(INLINE_COMMANDS) > 60
