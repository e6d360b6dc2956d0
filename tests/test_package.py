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
        _ = saferank.magic


def test_the_module_is_the_command_line():
    shown = subprocess.run(
        [sys.executable, "-m", "saferank", "data", "inspect", "nowhere"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 2
    assert shown.stderr.startswith("saferank: ")


@pytest.mark.slow
def test_a_type_checker_sees_what_the_names_are(tmp_path):
    """Names that are loaded when they are used are not `Any` to those who type-check."""
    client = tmp_path / "client.py"
    client.write_text(
        "import saferank as sr\n"
        "reveal_type(sr.load('run'))\n"
        "reveal_type(sr.InputError('no'))\n"
        "sr.learn(nonsense=1)\n"
        "sr.data.synthetic('small', queries='many')\n"
    )
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--follow-imports=silent"]
    shown = subprocess.run([*command, str(client)], capture_output=True, text=True, check=False)
    assert 'Revealed type is "saferank.learning.ranker.Ranker"' in shown.stdout
    assert 'Revealed type is "saferank.errors.InputError"' in shown.stdout
    assert "client.py:4: error" in shown.stdout
    assert "client.py:5: error" in shown.stdout
