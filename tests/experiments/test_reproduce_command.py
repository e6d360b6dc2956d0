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


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["9"], "`figure` must be one of"),
        (["x"], "must be whole"),
        (["2", "--preset", "huge"], "`preset` must be one of quick, paper"),
        (["2", "--data", "nowhere"], "a folder that exists"),
        (["2", "--sessions", "0"], "`sessions` must be at least 1"),
    ],
)
def test_bad_input_is_one_sentence(words, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        CliRunner().invoke(app, ["reproduce", *words, "-o", str(tmp_path)], catch_exceptions=False)
