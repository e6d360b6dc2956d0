"""Check what a wheel and an sdist hold: the whole package, its licence, and nothing else.

python .ci/contents.py dist
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(folder: Path) -> str | None:
    """Return what is wrong, or None."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    ours = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    extra = {name for name in names - ours if ".dist-info/" not in name}
    if ours - names or extra:
        return f"the wheel lacks {sorted(ours - names)}, has {sorted(extra)}"
    if not any(name.endswith("licenses/LICENSE") for name in names):
        return "the wheel has no licence"
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"LICENSE", "README.md", "pyproject.toml", *(f"src/{name}" for name in ours)}
    stray = {name for name in inside if name.startswith((".venv", "build/", "runs/"))}
    return f"the sdist lacks {sorted(needed - inside)}, has {sorted(stray)}" if (
        needed - inside or stray
    ) else None  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
