"""Write the lock files (third-party packages with hashes) and `constraints.txt` (versions alone).

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
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADER = "# Written by `make lock`; .ci/lock.py says how.\n"
OF_TORCH = re.compile(r"(torch|triton|cuda-.*|nvidia-.*)==")
BUILD = ["editables", "pip", "setuptools"]
"""What building without isolation needs besides the build system's own requirements."""


def main() -> None:
    """Resolve, then write the three files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    oldest = project["project"]["requires-python"].removeprefix(">=")
    build = "\n".join([*project["build-system"]["requires"], *BUILD])
    known = (ROOT / "constraints.txt").read_text()
    needed = _resolve(build, known, oldest, "pyproject.toml", "--extra", "dev")
    hashed = [entry for entry in needed if not OF_TORCH.match(entry)]
    kept = [entry for entry in needed if not OF_TORCH.match(entry) or entry.startswith("torch=")]
    # a package may have one version for some Pythons and another for others: markers say which
    versions = "\n".join(entry.partition(" \\")[0] for entry in kept)
    tools = _resolve(build, versions, oldest)
    for name, entries in (("requirements.lock", hashed), ("requirements-build.lock", tools)):
        (ROOT / name).write_text(HEADER + "\n".join(entries) + "\n")
    (ROOT / "constraints.txt").write_text(HEADER + versions + "\n")


def _resolve(build: str, known: str, oldest: str, *more: str) -> list[str]:
    """The entries of a requirements file with hashes."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "build.in").write_text(build)
        (Path(folder) / "known.txt").write_text(known)
        command = [
            sys.executable, "-m", "uv", "pip", "compile", f"{folder}/build.in", *more,
            "--constraints", f"{folder}/known.txt", "--universal", "--python-version", oldest,
            "--generate-hashes", "--no-header", "--no-annotate", "--quiet",
        ]  # fmt: skip
        done = subprocess.run(  # noqa: S603
            command, cwd=ROOT, capture_output=True, text=True, check=False
        )
    if done.returncode:
        sys.exit(done.stderr)
    return re.split(r"\n(?=\S)", done.stdout.strip())


if __name__ == "__main__":
    main()
