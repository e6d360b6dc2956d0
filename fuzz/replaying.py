"""`python -m fuzz.replaying TARGET FOLDER INPUT...`: read kept inputs, print what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

from fuzz.__main__ import TARGETS
from fuzz.parent import replay


def main(name: str, folder: str, *inputs: str) -> int:
    """The number of findings, at most 1, as the exit code."""
    target = next(one for one in TARGETS if one.name == name)
    found = replay(target, [Path(path) for path in inputs], Path(folder))
    print("\n".join(found))
    return min(1, len(found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
