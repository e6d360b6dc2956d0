"""Compiled code that was kept is fresh only while every module with kernels is as it was."""

import subprocess
import sys

PACKAGE = {
    "inner.py": "from saferank.kernels import kernel\n@kernel\ndef inner(x):\n    return x + {n}\n",
    "outer.py": (
        "from saferank.kernels import kernel\nfrom inner import inner\n"
        "@kernel\ndef outer(x):\n    return inner(x)\n"
    ),
}
RUN = """
from pathlib import Path
from saferank import kernels
kernels._SOURCES = kernels._sources(Path("."))
from outer import outer
print(outer(1), sum(outer.stats.cache_hits.values()))
"""


def run(folder):
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


def write(folder, n):
    for name, text in PACKAGE.items():
        path = folder / name
        if not path.exists() or "{n}" in text:
            path.write_text(text.replace("{n}", str(n)))


def test_a_kernel_is_compiled_again_when_one_that_it_calls_from_another_file_changed(tmp_path):
    write(tmp_path, 10)
    assert run(tmp_path) == [11, 0]
    assert run(tmp_path) == [11, 1]
    write(tmp_path, 200)
    assert run(tmp_path) == [201, 0]
