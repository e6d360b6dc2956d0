"""The shop of the first tutorial, for pages that go on from its files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import DOCS, console_commands, run_quietly


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the first tutorial, made once."""
    folder = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command, _ in console_commands(DOCS / "tutorials" / "first-ranker.md"):
            run_quietly(command, patch)
    return folder
