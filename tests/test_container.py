"""A usual container: the wheel in a read-only folder, no home, a user who is nobody."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOBODY = 54321  # no user of any system, so that nothing knows a home for it

COMMANDS = [
    "--version",
    "demo -o demo --queries 40 --sessions 2000",
    "simulate --data synthetic:small --sessions 2000 -o counts.parquet --items items.parquet",
    "learn --items items.parquet --counts counts.parquet --bias trust-bias --steps 20 -o run",
    "learn --items items.parquet --counts counts.parquet --bias trust-bias --scorer trees "
    "--rounds 5 -o trees",
    "certify run --items items.parquet --counts counts.parquet",
    "certify trees --items items.parquet --counts counts.parquet",
    "rank run --items items.parquet -o ranked.parquet",
    "rank trees --items items.parquet -o ranked-by-trees.parquet",
    "report run",
]


def python_for_others() -> str:
    """An interpreter of this version that any user can run."""
    own, version = Path(sys.executable).resolve(), sysconfig.get_python_version()
    for path in (
        own,
        *(Path(folder) / f"python{version}" for folder in ("/usr/local/bin", "/usr/bin")),
    ):
        if path.exists() and all(place.stat().st_mode & 0o001 for place in (path, *path.parents)):
            return str(path)
    pytest.skip("no interpreter that another user can run")


def read_only(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)


@pytest.fixture(scope="module")
def container(tmp_path_factory):
    """How to run a command there: interpreter, folder, environment, user."""
    pytest.importorskip("hatchling")
    place = tmp_path_factory.mktemp("container")
    site, work, scratch = place / "site", place / "work", place / "tmp"
    pip = [sys.executable, "-m", "pip", "--quiet"]
    options = ["--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "wheel", *options, "-w", place, ROOT], check=True)
    (wheel,) = place.glob("*.whl")
    subprocess.run([*pip, "install", *options, "--no-compile", "-t", site, wheel], check=True)
    read_only(site)
    for folder in (work, scratch):
        folder.mkdir()
        folder.chmod(0o777)
    for folder in (place, *place.parents[:-1]):
        if folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    packages = sysconfig.get_path("purelib")
    environment = {
        "PATH": "/usr/bin:/bin", "TMPDIR": str(scratch), "OMP_WAIT_POLICY": "passive",
        "PYTHONPATH": os.pathsep.join([str(site), packages]),
    }  # fmt: skip
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    return python_for_others() if user else sys.executable, work, environment, user


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="users and permissions as on Unix")
def test_everything_works_in_a_read_only_package_without_a_home(container):
    python, work, environment, user = container
    for command in COMMANDS:
        done = subprocess.run(
            [python, "-m", "saferank", *command.split()],
            cwd=work, env=environment, capture_output=True, text=True, check=False, **user,
        )  # fmt: skip
        assert done.returncode in (0, 3), f"{command}: {done.stderr}"
        assert "Traceback" not in done.stderr
    where = [python, "-c", "import saferank; print(saferank.__file__)"]
    shown = subprocess.run(where, cwd=work, env=environment, capture_output=True, text=True, **user)
    assert "/site/saferank/" in shown.stdout
    names = {path.name for path in work.iterdir()}
    assert {"demo", "run", "trees", "ranked.parquet", "ranked-by-trees.parquet"} <= names
    assert "~" not in names
