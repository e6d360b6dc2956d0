import io
import sys
from pathlib import Path

import pytest

from saferank import progress
from saferank.errors import InputError
from saferank.files import read_json, whole_file, whole_folder, write_json


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    with whole_file(path) as temporary:
        temporary.write_text("one")
        assert not path.exists()
    assert path.read_text() == "one"
    with pytest.raises(RuntimeError), whole_file(path) as temporary:
        temporary.write_text("two")
        raise RuntimeError
    assert path.read_text() == "one"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "run"
    for text in ("one", "two"):
        with whole_folder(path) as temporary:
            (temporary / "x").write_text(text)
        assert (path / "x").read_text() == text
    with pytest.raises(KeyboardInterrupt), whole_folder(path) as temporary:
        (temporary / "x").write_text("three")
        raise KeyboardInterrupt
    assert (path / "x").read_text() == "two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_put_in_place_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "run"
    with whole_folder(path) as temporary:
        (temporary / "x").write_text("one")
    replace = Path.replace

    def broken(self, target):
        if self.name != "run" and not self.name.endswith(".old"):
            raise OSError("no room")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="no room"), whole_folder(path) as temporary:
        (temporary / "x").write_text("two")
    assert (path / "x").read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


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


def test_progress_shows_only_where_a_person_looks(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    assert list(progress.track([1, 2], "work", total=2)) == [1, 2]
    assert stream.getvalue() == ""
    with progress.bar("work", 2, show=True) as advance:
        advance(2, note="best 3")
    assert stream.getvalue()
