import re
import subprocess
import sys

import pytest

import saferank


def test_import_loads_neither_torch_nor_numba():
    code = (
        "import saferank, sys; print([m for m in ('torch', 'numba', 'numpy') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_every_promised_name_is_there():
    for name in saferank.__all__:
        assert getattr(saferank, name) is not None
    assert set(saferank.__all__) <= set(dir(saferank))
    with pytest.raises(AttributeError, match="has no attribute 'magic'"):
        _ = saferank.magic  # type: ignore[attr-defined]


def test_the_module_is_the_command_line():
    shown = subprocess.run(
        [sys.executable, "-m", "saferank", "data", "inspect", "nowhere"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 2
    assert shown.stderr.startswith("saferank: ")


CLIENT = """\
import saferank as sr
reveal_type(sr.load("run"))
reveal_type(sr.InputError("no"))
sr.data.RankingData([[1.0]], offsets=[0, 1], labels=[1])
sr.learn(nonsense=1)
sr.data.synthetic("small", queries="many")
sr.certify(1.0)
sr.nothing
"""
CHECKERS = {
    "mypy": ["mypy", "--no-error-summary", "--follow-imports=silent"],
    "basedpyright": ["basedpyright", "--pythonpath", sys.executable],
}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_type_checker_sees_what_the_names_are(checker, tmp_path):
    """Names that are loaded when they are used are not `Any` to those who type-check."""
    pytest.importorskip(checker)
    client = tmp_path / "client.py"
    client.write_text(CLIENT)
    command = [sys.executable, "-m", *CHECKERS[checker], str(client)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert re.search(r':2:.*"(saferank.learning.ranker.)?Ranker"', shown)
    assert re.search(r':3:.*"(saferank.errors.)?InputError"', shown)
    lines = CLIENT.count("\n")
    errors = {int(line) for line in re.findall(r"client\.py:(\d+)\S* (?:- )?error", shown)}
    assert errors == set(range(5, lines + 1)), shown
