"""Write `requirements.lock` (third-party packages with hashes) and `constraints.txt` (versions).

`make lock` calls it: uv resolves what `pyproject.toml` and the build need, for every platform and
Python at once, keeping the versions of `constraints.txt` where they still fit. To take a newer
version of a package, change its line in `constraints.txt` (or remove it) and run `make lock` again.

torch stays out of the hashes: its CPU build comes from another place than its CUDA build, under
one version but with other bytes, and which of them a machine has is not for a lock to decide. What
only a CUDA build of torch needs stays out with it. torch's version is pinned in `constraints.txt`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADER = "# Written by `make lock`; .ci/lock.py says how.\n"
OF_TORCH = re.compile(r"(torch|triton|cuda-.*|nvidia-.*)==")
BUILD = ["editables", "pip"]
"""What an editable install without isolation needs besides the build system's own requirements."""


def main() -> None:
    """Resolve, then write both files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    build = "\n".join([*project["build-system"]["requires"], *BUILD])
    known = "\n".join(
        line for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    )
    entries = re.split(r"\n(?=\S)", _resolve(build, known).strip())
    hashed = [entry for entry in entries if not OF_TORCH.match(entry)]
    kept = [entry for entry in entries if not OF_TORCH.match(entry) or entry.startswith("torch=")]
    (ROOT / "requirements.lock").write_text(HEADER + "\n".join(hashed) + "\n")
    versions = [entry.split(" ")[0] for entry in kept]
    (ROOT / "constraints.txt").write_text(HEADER + "\n".join(versions) + "\n")


def _resolve(build: str, known: str) -> str:
    """The text of a requirements file with hashes."""
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    (folder / "build.in").write_text(build)
    (folder / "known.txt").write_text(known)
    command = [
        sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "build/build.in",
        "--extra", "dev", "--constraints", "build/known.txt", "--universal",
        "--python-version", project_python(), "--generate-hashes", "--no-header", "--no-annotate",
        "--quiet", "--no-emit-index-url",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def project_python() -> str:
    """The oldest Python that is supported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["requires-python"].removeprefix(">="))


if __name__ == "__main__":
    main()
