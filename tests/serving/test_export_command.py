"""`saferank export` from the command line: what is written, checked again, refused and kept."""

import contextlib
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from forests import NAMES, X, Y, forest_ranker
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.data import RankingData, write_items
from saferank.errors import InputError, MissingExtraError
from saferank.learning import Ranker
from saferank.serving.export import check_export, export
from saferank.serving.export.parity import Parity

PARITY = ".parity.parquet"


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A ranker of trees, plain and certified with its guard, and items."""
    folder = tmp_path_factory.mktemp("world")
    ranker = forest_ranker("standard", trees=5)
    ranker.save(folder / "run")
    ranker.save(folder / "certified")
    data = RankingData(X, np.arange(0, 601, 20), feature_names=NAMES, production=Y / 10)
    write_items(data, folder / "items.parquet")
    options = ["--guard", "--guard-mode", "mix", "--production-policy", "sampled"]
    run("certify", folder / "certified", "--items", folder / "items.parquet", *options)
    return folder


def few(*arguments):
    return run("export", *arguments, "--rows", 300)


def test_an_export_is_checked_when_made_and_anywhere(world, tmp_path):
    path = tmp_path / "model.txt"
    result = few(world / "run", "--to", "lightgbm", "-o", path)
    assert result.exit_code == 0
    assert "Treelite: 300 of 300 rows as the ranker scores them" in result.output
    assert path.read_text().startswith("tree\n")
    table = pq.read_table(f"{path}{PARITY}")
    assert table.num_rows == 300
    assert {"features", "query", "score", "tolerance"} == set(table.column_names)
    for given in (path, f"{path}{PARITY}"):
        again = run("export", "--check", given, "--json")
        record = json.loads(again.output)
        assert again.exit_code == 0
        assert record["holds"]
        assert {check["engine"] for check in record["checks"]} >= {"LightGBM's rule", "LightGBM"}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (path.name, path.name + PARITY):
        shutil.copy(tmp_path / name, elsewhere / name)
    assert run("export", "--check", elsewhere / path.name).exit_code == 0


def test_a_changed_export_is_not_to_be_shipped(world, tmp_path):
    path = tmp_path / "model.json"
    few(world / "run", "--to", "xgboost-json", "-o", path)
    trees = json.loads(path.read_text())
    trees[0]["split_condition"] = float(np.nextafter(np.float32(trees[0]["split_condition"]), -1e9))
    path.write_text(json.dumps(trees))
    result = run("export", "--check", path)
    assert result.exit_code == 3
    assert "the plugins' rule: 300 of 300" not in result.output


def test_json_of_lightgbm_is_chosen_by_the_name(world, tmp_path):
    path = tmp_path / "model.json"
    assert "Vespa's rule" in few(world / "run", "--to", "lightgbm", "-o", path).output
    record = json.loads(path.read_text())
    assert record["objective"] == "regression"
    assert record["feature_names"] == list(NAMES)


def test_the_same_ranker_gives_the_same_bytes(world, tmp_path):
    for target in ("onnx", "solr", "ranklib"):
        paths = [tmp_path / name for name in ("a", "b")]
        for path in paths:
            path.mkdir(exist_ok=True)
            few(world / "run", "--to", target, "-o", path / "model")
        assert len({(path / "model").read_bytes() for path in paths}) == 1
        assert len({(path / f"model{PARITY}").read_bytes() for path in paths}) == 1


@pytest.mark.parametrize("target", ["onnx", "lightgbm", "xgboost-json", "ranklib", "solr"])
def test_what_saferank_did_not_write_stays(target, world, tmp_path):
    path = tmp_path / "model"
    path.write_text("my thesis")
    with pytest.raises(InputError, match="saferank did not write"):
        few(world / "run", "--to", target, "-o", path)
    assert path.read_text() == "my thesis"
    path.unlink()
    parity = Path(f"{path}{PARITY}")
    parity.write_text("mine")
    with pytest.raises(InputError, match="saferank did not write"):
        few(world / "run", "--to", target, "-o", path)
    assert [entry.name for entry in tmp_path.iterdir()] == [parity.name]
    parity.unlink()
    for _ in range(2):
        assert few(world / "run", "--to", target, "-o", path).exit_code == 0


def test_mlflow_is_a_folder_with_a_signature(world, tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    (path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.txt"):
        few(world / "run", "--to", "mlflow", "-o", path)
    (path / "notes.txt").unlink()
    for _ in range(2):
        assert few(world / "run", "--to", "mlflow", "-o", path).exit_code == 0
    record = json.loads((path / "MLmodel").read_text())
    assert record["flavors"]["python_function"]["loader_module"] == "mlflow.onnx"
    (features,) = json.loads(record["signature"]["inputs"])
    assert features["tensor-spec"] == {"dtype": "float32", "shape": [-1, 5]}
    assert run("export", "--check", path).exit_code == 0


def test_mlflow_loads_and_predicts(world, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    few(world / "run", "--to", "mlflow", "-o", tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    parity = Parity.read(tmp_path / f"model{PARITY}")
    assert np.allclose(model.predict(parity.features)["scores"], parity.scores, atol=1e-6)


def test_the_guard_is_exported_as_certified_and_only_so(world, tmp_path):
    path = tmp_path / "model.onnx"
    with pytest.raises(InputError, match="this run was not"):
        few(world / "run", "--to", "onnx", "--guard", "-o", path)
    assert few(world / "certified", "--to", "onnx", "--guard", "-o", path).exit_code == 0
    parity = Parity.read(Path(f"{path}{PARITY}"))
    assert parity.share is not None
    assert 0 < parity.share.min() < 1
    assert parity.k == 3
    assert run("export", "--check", path).exit_code == 0
    with pytest.raises(InputError, match="for onnx and mlflow"):
        few(world / "certified", "--to", "solr", "--guard", "-o", tmp_path / "m")
    with pytest.raises(InputError, match="with --sample or --guard"):
        few(world / "run", "--to", "onnx", "-k", 4, "-o", tmp_path / "m")
    plain = few(world / "certified", "--to", "onnx", "-o", tmp_path / "plain.onnx")
    assert "Warning" in plain.output


def test_a_correction_is_exported_where_asked(world, tmp_path):
    adds = replace(Ranker.load(world / "run"), adds_production=True, production_temperature=2.0)
    adds.save(tmp_path / "adds")
    path = tmp_path / "model"
    with pytest.raises(InputError, match="--correction"):
        few(tmp_path / "adds", "--to", "solr", "-o", path)
    result = few(tmp_path / "adds", "--to", "solr", "-o", path, "--correction")
    assert "to be added to production's, divided by 2." in result.output
    with pytest.raises(InputError, match="correction"):
        few(world / "run", "--to", "solr", "-o", tmp_path / "m", "--correction")
    with pytest.raises(InputError, match="it is no policy"):
        few(tmp_path / "adds", "--to", "onnx", "--sample", "-o", path, "--correction")


def test_arguments_that_do_not_go_together(world, tmp_path):
    for arguments in (
        [world / "run"], ["--to", "onnx"], [world / "run", "--to", "onnx"],
        [world / "run", "--check", tmp_path / "m"], ["--check", tmp_path / "not there"],
        [world / "run", "--to", "pmml", "-o", tmp_path / "m"],
    ):  # fmt: skip
        with pytest.raises(InputError):
            run("export", *arguments)


def test_an_absent_part_says_how_to_install_it(world, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"saferank\[export\]"):
        export(world / "run", "onnx", tmp_path / "m", rows=50)
    for name in ("lightgbm", "treelite", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    report = export(world / "run", "lightgbm", tmp_path / "m", rows=50)
    assert [check.engine for check in report.checks] == ["LightGBM's rule"]


def test_hostile_parity_files_are_refused(world, tmp_path):
    path = tmp_path / "model"
    export(world / "run", "ranklib", path, rows=50)
    parity = Path(f"{path}{PARITY}")
    table = pq.read_table(parity)
    facts = json.loads(table.schema.metadata[b"saferank_export"])

    def with_facts(**changes):
        text = json.dumps({**facts, **changes})
        return table.replace_schema_metadata({"saferank": "parity", "saferank_export": text})

    hostile = {
        "no facts": table.replace_schema_metadata({}),
        "other names": with_facts(names=["a"] * 4),
        "names that are numbers": with_facts(names=[1, 2, 3, 4, 5]),
        "an unknown target": with_facts(target="pickle"),
        "a column less": table.drop_columns(["score"]),
        "rows out of order": table.take(list(range(49, -1, -1))),
        "texts": table.set_column(2, "score", [["a"] * 50]),
        "no rows": table.slice(0, 0),
    }
    for name, changed in hostile.items():
        pq.write_table(changed, parity)
        with pytest.raises(InputError) as refusal:
            check_export(path)
        assert len(str(refusal.value)) <= 300, name
    parity.write_bytes(b"PAR1" + b"\0" * 100)
    with pytest.raises(InputError):
        check_export(path)


@pytest.mark.parametrize("target", ["onnx", "lightgbm", "xgboost-json", "ranklib", "solr"])
def test_hostile_exports_are_refused(target, world, tmp_path):
    path = tmp_path / "model"
    export(world / "run", target, path, rows=50)
    whole = path.read_bytes()
    texts = [b"", b"{}", b"[]", b"[1]", b"null", b"<ensemble>", b"\xff\xfe", b"[" * 10**5]
    texts += [whole[: len(whole) // 2], whole.replace(b"feature", b"featurf")]
    for text in filter(lambda text: text != whole, texts):
        path.write_bytes(text)
        with contextlib.suppress(InputError):
            assert not check_export(path).holds
