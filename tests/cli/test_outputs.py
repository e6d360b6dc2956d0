"""`-o` never takes away what saferank did not write, whatever the command."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.errors import InputError

LOG = pa.table(
    {
        "query_id": ["a", "a", "b", "b"] * 60,
        "doc_id": ["1", "2", "3", "4"] * 60,
        "rank": [1, 2, 2, 1] * 60,
        "click": [1, 0, 1, 0] * 60,
    }
)


def run(*arguments: object) -> None:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 3), result.output


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, items, counts and a ranker."""
    folder = tmp_path_factory.mktemp("world")
    pq.write_table(LOG, folder / "log.parquet")
    counts, items = folder / "counts.parquet", folder / "items.parquet"
    run("simulate", "-o", counts, "--items", items, "--sessions", 3000, "--data", "synthetic")
    run("learn", "--items", items, "--counts", counts, "-o", folder / "run", "--steps", 50)
    run("certify", folder / "run", "--items", items)
    return folder


def commands(world: Path, output: Path) -> dict[str, list[object]]:
    items, counts = world / "items.parquet", world / "counts.parquet"
    bias = [counts, "--kind", "position"]
    few = ["--sessions", 500]
    return {
        "count": ["count", world / "log.parquet", "-o", output],
        "simulate": ["simulate", "-o", output, *few],
        "simulate --rows": ["simulate", "--rows", "-o", output, *few],
        "simulate --items": ["simulate", "-o", f"{output}.1", "--items", output, *few],
        "bias": ["bias", *bias, "-o", output],
        "bias --chart": ["bias", *bias, "--chart", output],
        "logs check --chart": ["logs", "check", world / "log.parquet", "--chart", output],
        "logs check --robots": ["logs", "check", world / "log.parquet", "--robots", output],
        "rank": ["rank", world / "run", "--items", items, "-o", output],
        "rank as CSV": ["rank", world / "run", "--items", items, "-o", output],
        "rank as JSON": ["rank", world / "run", "--items", items, "-o", output],
        "report": ["report", world / "run", "-o", output],
    }


NAMES = {
    "simulate --items": "o.parquet",
    "bias --chart": "o.svg",
    "logs check --chart": "o.png",
    "logs check --robots": "o.parquet",
    "rank": "o.parquet",
    "rank as CSV": "o.csv",
    "rank as JSON": "o.json",
}
ALL = list(commands(Path(), Path()))


@pytest.mark.parametrize("name", ALL)
def test_a_file_of_the_users_is_refused_and_one_of_ours_is_replaced(
    name: str, world: Path, tmp_path: Path
) -> None:
    output = tmp_path / NAMES.get(name, "o")
    output.write_text("my thesis")
    with pytest.raises(InputError, match="saferank did not write"):
        run(*commands(world, output)[name])
    assert output.read_text() == "my thesis"
    assert list(tmp_path.iterdir()) == [output]
    output.unlink()
    run(*commands(world, output)[name])
    first = output.stat().st_mtime_ns
    run(*commands(world, output)[name])
    assert output.stat().st_mtime_ns > first


KINDS = {
    "count": "counts", "simulate": "counts", "simulate --rows": "log", "simulate --items": "items",
    "bias": "click model", "logs check --robots": "exclusions", "rank": "rankings",
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_what_saferank_wrote_is_replaced_by_its_own_kind_alone(
    name: str, world: Path, tmp_path: Path
) -> None:
    output = tmp_path / NAMES.get(name, "o")
    for other in ("count", "simulate --rows", "simulate --items", "bias", "rank"):
        if KINDS[other] == KINDS[name]:
            continue
        there = tmp_path / "o.parquet" if other in NAMES else tmp_path / "o"
        run(*commands(world, there)[other])
        there.rename(output)
        before = output.read_bytes()
        with pytest.raises(InputError, match=f"holds saferank's {KINDS[other]}, not {KINDS[name]}"):
            run(*commands(world, output)[name])
        assert output.read_bytes() == before
        output.unlink()


@pytest.mark.parametrize("name", ALL)
def test_a_folder_a_pipe_and_a_device_are_refused(name: str, world: Path, tmp_path: Path) -> None:
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    for output in (folder, pipe, Path("/dev/null")):
        with pytest.raises(InputError, match="must be a file"):
            run(*commands(world, output)[name])


def test_the_file_that_is_read_is_not_written(world: Path) -> None:
    items, counts = world / "items.parquet", world / "counts.parquet"
    before = {path: path.read_bytes() for path in (items, counts)}
    for arguments in (
        ["count", counts, "-o", counts],
        ["count", world / "*.parquet", "-o", counts],
        ["bias", counts, "-o", counts],
        ["simulate", "--data", items, "-o", items, "--sessions", 10],
        ["rank", world / "run", "--items", items, "-o", items],
        ["report", world / "run", "-o", world / "run" / "assessment.json"],
    ):
        with pytest.raises(InputError, match=r"another name|another file"):
            run(*arguments)
    with pytest.raises(InputError, match="twice"):
        run("simulate", "-o", world / "new", "--items", world / "new", "--sessions", 10)
    assert {path: path.read_bytes() for path in (items, counts)} == before


def learn(world: Path, output: Path | str) -> None:
    items, counts = world / "items.parquet", world / "counts.parquet"
    run("learn", "--items", items, "--counts", counts, "-o", output, "--steps", 20)


def test_learn_refuses_folders_that_are_not_a_rankers(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "chapter.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for output in (thesis, tmp_path / "file"):
        with pytest.raises(InputError, match=r"there already|not there yet"):
            learn(world, output)
    assert (thesis / "chapter.txt").read_text() == "mine"
    assert (tmp_path / "file").read_text() == "mine"
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    for output in map(Path, (".", "..", "/")):
        with pytest.raises(InputError, match="not the current one"):
            learn(world, output)


def test_learn_replaces_a_ranker_with_its_assessment_and_page_but_not_with_notes(
    world: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    learn(world, output)
    run("certify", output, "--items", world / "items.parquet")
    run("report", output)
    assert (output / "report.html").is_file()
    learn(world, output)
    assert not (output / "report.html").exists(), "the page of the ranker that was there before"
    (output / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.txt"):
        learn(world, output)
    assert (output / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["rankers.html", "rankers.png", "prpo"])
def test_demo_refuses_before_it_works(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=r"saferank did not write|must be a folder"):
        run("demo", "-o", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("name", ["index.html", "claims.json", "claims.md", "figure-2.svg"])
def test_reproduce_refuses_before_it_works(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match="saferank did not write"):
        run("reproduce", 2, "-o", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
