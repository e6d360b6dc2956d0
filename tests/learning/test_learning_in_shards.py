"""Learning from shards: any number of processes, each with its own files, has the bits of one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from learning.working_together import at_all
from logs.shop_shards import Tables, write_tables
from typer.testing import CliRunner

import saferank as sr
from saferank.cli.app import app
from saferank.cli.judging_options import NOT_TO_SHIP
from saferank.errors import InputError
from saferank.learning import own_shards
from saferank.learning.own_shards import OwnShards, read_shards
from saferank.learning.portion import share_shards
from saferank.learning.shown_in_shards import settle_in_shards
from saferank.learning.workers import Workers
from saferank.logs.shard_folder import ShardFolder, counts_name, items_name

RANKS = 3
MODEL = sr.clicks.trust_bias(RANKS)
FEW = sr.learning.Settings(steps=20)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return write_tables(tmp_path_factory.mktemp("shop"), queries=250)


@pytest.fixture(scope="module")
def folder(tables: Tables) -> Path:
    path = tables.items.parent / "shards"
    sr.logs.shard(tables.items, tables.counts, path, shards=4, columns={"doc_id": "sku"})
    return path


@pytest.fixture(scope="module")
def whole(folder: Path) -> OwnShards:
    return read_shards(folder, ranks=RANKS)


def learn(shards: OwnShards, **changes: object) -> sr.Ranker:
    production = changes.pop("production", shards.data.production)
    changes = {"settings": FEW, "seed": 1, **changes}
    return sr.learn(shards, click_model=MODEL, production=production, **changes)  # type: ignore[arg-type]


def own_folder(folder: Path, place: Path, own: range) -> Path:
    """A copy in which the files of other shards are there, and empty."""
    shutil.copytree(folder, place)
    for number in range(4):
        if number not in own:
            for name in (items_name(number), counts_name(number)):
                (place / name).write_bytes(b"")
    return place


def test_a_worker_reads_no_shard_but_its_own(
    folder: Path, whole: OwnShards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [record.documents for record in ShardFolder.open(folder).manifest.shards]
    owned = share_shards(sizes, 2)
    folders = [own_folder(folder, tmp_path / str(rank), own) for rank, own in enumerate(owned)]

    # each worker is a thread: who it is must be known where the shards are read
    from threading import local

    here = local()
    monkeypatch.setattr(own_shards, "workers", lambda: here.us)

    def read(us: Workers) -> OwnShards:
        here.us = us
        return read_shards(folders[us.rank], ranks=RANKS)

    parts = at_all(2, read)
    assert [part.data.documents for part in parts] == [
        sum(sizes[number] for number in own) for own in owned
    ]
    features = np.concatenate([part.data.features for part in parts])
    np.testing.assert_array_equal(features, whole.data.features)
    clicks = np.concatenate([part.counts.clicks for part in parts])
    np.testing.assert_array_equal(clicks, whole.counts.clicks)
    for part in parts:
        assert part.portion.offsets.tolist() == whole.portion.offsets.tolist()
        assert part.portion.sessions.tolist() == whole.portion.sessions.tolist()
        assert part.prints == whole.prints
        assert part.alignment.sentences() == whole.alignment.sentences()


def test_it_learns_from_the_documents_and_clicks_of_the_whole(
    tables: Tables, folder: Path, whole: OwnShards
) -> None:
    items = sr.data.read_items(tables.items, columns={"doc_id": "sku"})
    counts, report = sr.logs.align(sr.counts.CountTable.open(tables.counts), items, ranks=RANKS)
    assert whole.data.documents == items.documents
    assert whole.alignment.to_dict() == report.to_dict()
    alone = sr.learn(items, counts, MODEL, production=items.production, settings=FEW, seed=1)
    ranker = learn(whole)
    np.testing.assert_allclose(ranker.scaling.centre, alone.scaling.centre, rtol=1e-10)
    np.testing.assert_allclose(ranker.scaling.spread, alone.scaling.spread, rtol=1e-10)
    assert ranker.scaling.encoding.levels == alone.scaling.encoding.levels
    assert ranker.features == alone.features
    assert ranker.provenance.sessions == alone.provenance.sessions
    assert ranker.provenance.production.kind == alone.provenance.production.kind
    assert ranker.scores(items).shape == (items.documents,)


def test_production_is_taken_for_what_it_is_on_the_whole(tables: Tables, whole: OwnShards) -> None:
    items = sr.data.read_items(tables.items, columns={"doc_id": "sku"})
    counts, _ = sr.logs.align(sr.counts.CountTable.open(tables.counts), items, ranks=RANKS)
    from saferank.policies import choose_production

    for kind in ("auto", "sorted", "observed", "uniform"):
        shown = settle_in_shards(whole, None, kind)
        policy, fit = choose_production(counts, items.production, kind)
        assert shown.fit.kind == fit.kind
        assert shown.fit.sentence.startswith(fit.sentence)
        exposures = policy.exposure(MODEL.exposure_weights)
        mine = shown.policy.exposure(MODEL.exposure_weights)
        np.testing.assert_allclose(np.sort(mine), np.sort(exposures), atol=1e-12)


def test_methods_and_starts_learn(whole: OwnShards) -> None:
    for method in ("prpo", "dr", "safe-dr", "ips"):
        ranker = learn(whole, method=method, scorer="linear")
        values = ranker.provenance.history["values"]
        assert np.isfinite(values).all()
    again = learn(whole, method="prpo", production=learn(whole))
    assert again.provenance.recipe["start"] == "production"
    assert learn(whole, start="add").adds_production


def test_a_certificate_on_a_shard_knows_that_its_sessions_were_not_learned_from(
    folder: Path, whole: OwnShards, tmp_path: Path
) -> None:
    from saferank.safety.independence import can_tell, shared_sessions

    ranker = learn(whole, scorer="linear")
    shard = ShardFolder.open(folder).read(2, ranks=RANKS)
    assert shared_sessions(ranker, shard.counts) is None
    assert can_tell(ranker, shard.counts)
    assert shared_sessions(ranker, shard.counts.part("learn")) is not None


def test_sessions_without_ids_are_known_again_however_the_queries_are_cut(
    tables: Tables, tmp_path: Path
) -> None:
    from saferank.safety.independence import shared_sessions

    named = ["query_id", "doc_id", "rank", "impressions", "clicks"]
    log = pq.read_table(tables.counts).select(named).replace_schema_metadata(None)
    counted = sr.count(log, judge=0)
    folders = [tmp_path / name for name in ("four", "three")]
    for folder, shards in zip(folders, (4, 3), strict=True):
        sr.logs.shard(tables.items, counted, folder, shards=shards, columns={"doc_id": "sku"})
    ranker = learn(read_shards(folders[0], ranks=RANKS), scorer="linear")
    items = sr.data.read_items(tables.items, columns={"doc_id": "sku"})
    aligned, _ = sr.logs.align(counted, items, ranks=RANKS)
    for same in (aligned, read_shards(folders[1], ranks=RANKS).counts):
        said = shared_sessions(ranker, same)
        assert said is not None
        assert "that the ranker was learned from" in said
    clicks = log["clicks"].to_numpy().copy()
    clicks[np.flatnonzero(clicks < log["impressions"].to_numpy())[0]] += 1
    other = log.set_column(4, "clicks", [clicks])
    fresh, _ = sr.logs.align(sr.count(other, judge=0), items, ranks=RANKS)
    assert shared_sessions(ranker, fresh) is None


@pytest.mark.parametrize("wrong", [10**18, 1, 0, -5])
def test_a_manifest_with_other_numbers_is_refused_before_memory_is_taken(
    folder: Path, tmp_path: Path, wrong: int
) -> None:
    place = tmp_path / "shards"
    shutil.copytree(folder, place)
    manifest = json.loads((place / "shards.json").read_text())
    manifest["shards"][1]["documents"] = wrong
    (place / "shards.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"rows of|documents of a shard"):
        read_shards(place, ranks=RANKS)


def test_certify_and_rank_take_the_folder_and_a_shard(
    tables: Tables, folder: Path, whole: OwnShards, tmp_path: Path
) -> None:
    learn(whole, scorer="linear").save(tmp_path / "run")

    def run(*words: object) -> str:
        result = CliRunner().invoke(app, [*map(str, words)])
        assert result.exit_code in (0, NOT_TO_SHIP), (result.output, result.exception)
        return result.stdout

    ranked = {}
    for name, options in {
        "folder": ("--items", folder),
        "tables": ("--items", tables.items, "--column", "doc_id=sku"),
    }.items():
        run("rank", tmp_path / "run", *options, "--sorted", "-o", tmp_path / f"{name}.parquet")
        rows = pq.read_table(tmp_path / f"{name}.parquet").to_pylist()
        ranked[name] = {(row["query_id"], row["rank"]): row["doc_id"] for row in rows}
    assert ranked["folder"] == ranked["tables"]
    said = {}
    for name, options in {
        "folder": ("--items", folder),
        "tables": ("--items", tables.items, "--column", "doc_id=sku", "--counts", tables.counts),
        "shard": ("--items", folder / items_name(1), "--counts", folder / counts_name(1)),
    }.items():
        said[name] = json.loads(run("certify", tmp_path / "run", *options, "--json"))
    assert said["folder"]["certificate"]["queries"] == 250
    assert said["shard"]["certificate"]["queries"] == len(
        set(pq.read_table(folder / items_name(1))["query_id"].to_pylist())
    )
    both = [said[name]["certificate"]["mean_loss"] for name in ("folder", "tables")]
    assert both[0] == pytest.approx(both[1])


def test_what_shards_cannot_do_is_refused_in_a_sentence(whole: OwnShards, folder: Path) -> None:
    for changes, sentence in (
        ({"scorer": "trees"}, "`scorer` must be a network"),
        ({"scaling": "clip"}, "`scaling` must be another than clip"),
        ({"production_kind": "recorded"}, "recorded"),
        ({"counts": whole.counts}, "`counts` must be left out"),
    ):
        with pytest.raises(InputError, match=sentence):
            learn(whole, **changes)
    for words, sentence in (
        (["--bias", "trust-bias", "--counts", "c.parquet"], "`--counts` must be left out"),
        ([], "`--bias` must be given"),
        (["--bias", "trust-bias", "--method", "skyline"], "`--bias` must be given"),
    ):
        result = CliRunner().invoke(app, ["learn", "--items", str(folder), "-o", "x", *words])
        assert sentence in str(result.exception)


SCRIPT = """
import sys
from pathlib import Path
import saferank as sr
from saferank.learning.workers import together

if __name__ == "__main__":
    base, output = map(Path, sys.argv[1:])
    model = sr.clicks.trust_bias(3)
    with together() as all_of_us:
        # a folder of each worker's own, in which it has nothing but its own shards
        folder = Path(f"{base}-{all_of_us.count}-{all_of_us.rank}")
        shards = sr.learning.read_shards(folder if folder.is_dir() else base, ranks=model.ranks)
        ranker = sr.learn(shards, click_model=model, production=shards.data.production, seed=1,
                          settings=sr.learning.Settings(steps=20))
        if all_of_us.writes:
            ranker.save(output)
"""


def parameters(run: Path) -> bytes:
    return (run / "scorer.safetensors").read_bytes()


def test_two_processes_with_nothing_but_their_own_shards_learn_the_bits_of_one(
    folder: Path, whole: OwnShards, tmp_path: Path
) -> None:
    sizes = [record.documents for record in ShardFolder.open(folder).manifest.shards]
    for rank, own in enumerate(share_shards(sizes, 2)):
        own_folder(folder, tmp_path / f"shards-2-{rank}", own)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    subprocess.run([*start, script, tmp_path / "shards", tmp_path / "run"], check=True)
    learn(whole).save(tmp_path / "alone")
    assert parameters(tmp_path / "run") == parameters(tmp_path / "alone")
    record = (tmp_path / "run" / "ranker.json").read_text(encoding="utf-8")
    assert record == (tmp_path / "alone" / "ranker.json").read_text(encoding="utf-8")


def command(folder: Path, output: Path, count: int | None, steps: int = 60) -> list[str]:
    start = ["-m", "torch.distributed.run", "--nproc-per-node", str(count)] if count else []
    bias = output.parent / "bias.json"
    MODEL.save(bias)
    given = [*start, "-m", "saferank", "learn", "--items", folder, "--bias", bias, "--steps", steps,
             "-o", output]  # fmt: skip
    return [sys.executable, *map(str, given)]


@pytest.mark.slow
def test_one_two_and_four_processes_write_the_same_bits(folder: Path, tmp_path: Path) -> None:
    for count in (None, 1, 2, 4):
        subprocess.run(command(folder, tmp_path / str(count), count), check=True)
    assert len({parameters(tmp_path / str(count)) for count in (None, 1, 2, 4)}) == 1


@pytest.mark.slow
def test_a_killed_worker_leaves_a_run_that_goes_on_to_the_same_bits(
    folder: Path, tmp_path: Path
) -> None:
    steps = 2000
    subprocess.run(command(folder, tmp_path / "whole", None, steps), check=True)
    run, checkpoint = tmp_path / "run", tmp_path / ".run.checkpoint"
    process = subprocess.Popen(command(folder, run, 2, steps), start_new_session=True)
    try:
        while not list(checkpoint.glob("*/*/state.json")):
            assert process.poll() is None, "it ended before a worker could be killed"
            time.sleep(0.005)
        text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
        os.kill(max(map(int, text.split())), signal.SIGKILL)
        assert process.wait(timeout=300) != 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert not run.exists()
    subprocess.run(command(folder, run, 4, steps), check=True)
    assert parameters(run) == parameters(tmp_path / "whole")
    assert not checkpoint.exists()


SPREAD = """
import sys
from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
TorchDistributor(num_processes=2, local_mode=True, use_gpu=False).run(*sys.argv[1:])
spark.stop()
"""


@pytest.mark.slow
def test_sparks_distributor_learns_the_same_bits(
    folder: Path, whole: OwnShards, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    script, spread = tmp_path / "train.py", tmp_path / "spread.py"
    script.write_text(SCRIPT, encoding="utf-8")
    spread.write_text(SPREAD, encoding="utf-8")
    # in a process of its own: PySpark leaves pipes open
    subprocess.run([sys.executable, spread, script, folder, tmp_path / "spark"], check=True)
    learn(whole).save(tmp_path / "alone")
    assert parameters(tmp_path / "spark") == parameters(tmp_path / "alone")
