import json

import pytest
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.errors import InputError


def test_reproduce_writes_figures_and_goes_on(tmp_path):
    words = ["reproduce", "1", "--output", str(tmp_path), "--data", "synthetic:small:20", "--json"]
    told = json.loads(CliRunner().invoke(app, words, catch_exceptions=False).stdout)
    assert told["jobs"] == 0
    assert told["claims"] == {"does not hold": 1}
    assert (tmp_path / "index.html").is_file()
    assert [path.rsplit("/", 1)[1] for path in told["figures"]] == ["figure-1.svg"]


def test_several_collections_stand_side_by_side(tmp_path):
    names = ("small-20", "small-25")
    data = [word for name in names for word in ("--data", f"synthetic:{name.replace('-', ':')}")]
    words = ["reproduce", "1,6", *data, "-o", str(tmp_path), "--sessions", "100", "--seeds", "1"]
    words += ["--workers", "1"]
    told = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).stdout
    together = json.loads(told)
    assert set(together["collections"]) == set(names)
    assert all(it["failed"] == 0 < it["jobs"] for it in together["collections"].values())
    alone = [json.loads((tmp_path / name / "claims.json").read_text())["claims"] for name in names]
    rows = (tmp_path / "claims.md").read_text().splitlines()
    assert rows[0] == f"| figure | claim | {' | '.join(names)} |"
    assert len(rows) == 2 + len(alone[0]) + 1 == 5  # and the mark of what saferank wrote
    assert all(claims[1]["numbers"] in rows[3] for claims in alone)
    page = (tmp_path / "index.html").read_text()
    assert all(f"<th>{name}</th>" in page for name in names)
    # what is there already is not run again, by either way
    again = CliRunner().invoke(app, words, catch_exceptions=False).stdout
    assert "0 ran" in again.replace("\n", " ")
    assert "small-20: " in again


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["9"], "`figure` must be one of"),
        (["x"], "must be whole"),
        (["2", "--preset", "huge"], "`preset` must be one of quick, paper"),
        (["2", "--data", "nowhere"], "a folder that exists"),
        (["2", "--sessions", "0"], "`sessions` must be at least 1"),
        (["2", "--data", "a/Fold1", "--data", "b/../a/Fold1"], "of different names"),
        (["8", "--data", "a", "--data", "b"], "one collection for figure 8"),
    ],
)
def test_bad_input_is_one_sentence(words, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        CliRunner().invoke(app, ["reproduce", *words, "-o", str(tmp_path)], catch_exceptions=False)
