import errno
import io
import os
import sys
from pathlib import Path

import pytest

from saferank._core import files, progress
from saferank._core.files import atomic_file, atomic_folder, read_json, write_json
from saferank.errors import InputError, require


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    with atomic_file(path) as temporary:
        temporary.write_text("one")
        assert not path.exists()
    assert path.read_text() == "one"
    with pytest.raises(RuntimeError), atomic_file(path) as temporary:
        temporary.write_text("two")
        raise RuntimeError
    assert path.read_text() == "one"
    assert list(path.parent.iterdir()) == [path]


HOLDS = ("x.json", "y.txt", "page.html")


def save(path: Path, number: int) -> None:
    with atomic_folder(path, holds=HOLDS) as temporary:
        write_json(temporary / "x.json", {"n": number})


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "run"
    for number in (1, 2):
        save(path, number)
        assert read_json(path / "x.json") == {"n": number}
    with pytest.raises(KeyboardInterrupt), atomic_folder(path, holds=HOLDS) as temporary:
        write_json(temporary / "x.json", {"n": 3})
        raise KeyboardInterrupt
    assert read_json(path / "x.json") == {"n": 2}
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_put_in_place_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "run"
    save(path, 1)
    rename = Path.rename
    tries = []

    def broken(self, target):
        if self.name == "made":
            tries.append(target)
            raise OSError(errno.ENOTEMPTY if len(tries) == 1 else errno.ENOSPC, "no room")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", broken)
    monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    with pytest.raises(OSError, match="no room"):
        save(path, 2)
    assert tries == [path, path]
    assert read_json(path / "x.json") == {"n": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_replaced_where_two_cannot_change_places(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    for number in (1, 2):
        save(tmp_path / "run", number)
    assert read_json(tmp_path / "run" / "x.json") == {"n": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def foreign_file(path: Path) -> None:
    path.mkdir()
    (path / "thesis.txt").write_text("mine")


def foreign_beside_ours(path: Path) -> None:
    save(path, 1)
    (path / "thesis.txt").write_text("mine")


def foreign_under_our_name(path: Path) -> None:
    save(path, 1)
    (path / "page.html").write_text("<html>mine</html>")


def foreign_json(path: Path) -> None:
    path.mkdir()
    (path / "x.json").write_text('{"mine": 1}')


def foreign_folder(path: Path) -> None:
    save(path, 1)
    (path / "y.txt").mkdir()


def lacks_its_first(path: Path) -> None:
    path.mkdir()
    (path / "y.txt").write_text("mine")


@pytest.mark.parametrize(
    "make",
    [
        foreign_file, foreign_beside_ours, foreign_under_our_name, foreign_json, foreign_folder,
        lacks_its_first, lambda path: path.write_text("mine"),
    ],
)  # fmt: skip
def test_what_saferank_did_not_write_is_never_replaced(make, tmp_path):
    path = tmp_path / "run"
    make(path)
    before = {p: p.is_file() and p.read_bytes() for p in sorted(tmp_path.rglob("*"))}
    with pytest.raises(InputError, match="run"):
        save(path, 2)
    assert {p: p.is_file() and p.read_bytes() for p in sorted(tmp_path.rglob("*"))} == before


def test_what_comes_while_a_folder_is_made_is_not_replaced_either(tmp_path):
    path = tmp_path / "run"
    with pytest.raises(InputError, match=r"thesis\.txt"), atomic_folder(path, holds=HOLDS):
        foreign_file(path)
    assert (path / "thesis.txt").read_text() == "mine"


def test_an_empty_folder_may_be_used_but_not_the_current_one(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    save(tmp_path / "run", 1)
    empty = tmp_path / "empty" / "inner"
    empty.mkdir(parents=True)
    monkeypatch.chdir(empty)
    for path in (Path(), Path(".."), empty, Path("/")):
        with pytest.raises(InputError, match="not the current one"):
            save(path, 1)


def test_a_file_takes_the_place_of_a_file_only(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "folder", tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(InputError, match="must be a file"):
            write_json(path, {})
    private, link = tmp_path / "private.json", tmp_path / "link.json"
    private.touch(mode=0o600)
    link.symlink_to(private)
    write_json(link, {"a": 1})
    assert link.is_symlink()
    assert read_json(private) == {"a": 1}
    assert private.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ['it\'s "both"', "‮right to left", "[1]*?", "ünï\ncode", "-o"])
def test_odd_names(name, tmp_path):
    write_json(tmp_path / name / f"{name}.json", {"a": 1})
    assert read_json(tmp_path / name / f"{name}.json") == {"a": 1}
    save(tmp_path / name / "run", 1)
    save(tmp_path / name / "run", 2)


def test_json_round_trip_and_what_is_refused(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"b": [1, 2.5, "é"], "a": None})
    assert read_json(path) == {"a": None, "b": [1, 2.5, "é"]}
    with pytest.raises(ValueError, match="Out of range"):
        write_json(path, float("nan"))
    assert read_json(path)["a"] is None
    with pytest.raises(InputError, match="at most 3 bytes"):
        read_json(path, limit=3)
    path.write_text("{")
    with pytest.raises(InputError, match="must be JSON"):
        read_json(path)
    with pytest.raises(InputError, match="a file that exists"):
        read_json(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[" * 100_000, "nested"),
        ("9" * 5000, "64 bits"),
        ("1" + "0" * 400, "64 bits"),
        ("1e400", "not finite"),
        ('{"a": NaN}', "not finite"),
        ("[-Infinity]", "not finite"),
        ("x" * 10_000, "must be JSON"),
    ],
)
def test_hostile_json_is_one_short_sentence(text, fault, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError, match=fault) as refused:
        read_json(path)
    assert len(str(refused.value)) <= 300
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="must be JSON"):
        read_json(path)


def test_messages_are_short_and_on_one_line():
    for error in (InputError("x" * 10**6), InputError("a\nb" * 1000)):
        assert len(str(error)) <= 300
        assert "\n" not in str(error)
    with pytest.raises(InputError, match=r"^`n` must be small; got 99+ … 99+\.$") as refused:
        require(False, "n", "small", int("9" * 4000))
    assert len(str(refused.value)) <= 300
    with pytest.raises(InputError, match="a value of type int"):
        require(False, "n", "small", 10**5000)


def test_progress_shows_only_where_a_person_looks(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    assert list(progress.track([1, 2], "work", total=2)) == [1, 2]
    assert stream.getvalue() == ""
    with progress.bar("work", 2, show=True) as advance:
        advance(2, note="best 3")
    assert stream.getvalue()


def test_half_a_character_is_refused(tmp_path):
    path = tmp_path / "record.json"
    path.write_text('{"name": "a\\ud800"}')
    with pytest.raises(InputError, match="must be JSON"):
        read_json(path)
    path.write_text('{"name": "\\ud83d\\ude00"}')
    assert read_json(path) == {"name": "\U0001f600"}
