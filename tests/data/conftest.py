"""Real collections, where they are at hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from saferank._core.threads import use_threads

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the real collections are not here (a folder shared/data beside the project)")
    return SHARED


@pytest.fixture
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user cache folder of the test's own."""
    home = tmp_path / "user-cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tests run side by side on few cores: threads that wait for each other would slow them."""
    with use_threads(1):
        yield
