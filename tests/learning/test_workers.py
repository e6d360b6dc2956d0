"""Several workers have the bits of one; one that is killed leaves a run that goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from learning.working_together import at_all

from saferank._core.flat import halve_queries
from saferank.clicks import simulate, trust_bias
from saferank.counts.counts_file import save_counts
from saferank.data import synthetic, write_items
from saferank.errors import EngineError
from saferank.learning.shares import Shares, subtrees
from saferank.learning.workers import Workers


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=20),
    st.integers(1, 30),
    st.integers(1, 6),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_any_number_of_workers_has_the_sum_and_the_rows_of_one(
    sizes: list[int], documents: int, count: int, kind: torch.dtype
) -> None:
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = torch.from_numpy(rng.normal(size=(len(sizes), 2)))
    vectors = {cut: torch.from_numpy(rng.normal(size=3)).to(kind)
               for cut in halve_queries(offsets, documents)}  # fmt: skip

    def learn(worker: Workers) -> tuple[torch.Tensor, ...]:
        shares = Shares.of(offsets, documents, worker)
        own = [rows[first:last] for first, last in shares.own]
        return *shares.add_up([vectors[cut] for cut in shares.own], own), shares.join(own)

    total, *alone = learn(Workers())
    torch.testing.assert_close(total, torch.stack(list(vectors.values())).sum(dim=0))
    assert all(torch.equal(table, rows) for table in alone)
    for gathered in at_all(count, learn):
        assert torch.equal(gathered[0], total)
        assert all(torch.equal(table, rows) for table in gathered[1:])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 30), st.integers(1, 6))
def test_each_block_is_computed_once_and_few_sums_are_sent(
    sizes: list[int], documents: int, count: int
) -> None:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    shares = Shares.of(offsets, documents, Workers(0, count))
    blocks = len(shares.cuts)
    assert [at for own in shares.ranges for at in own] == list(range(blocks))
    assert [query for cut in shares.cuts for query in range(*cut)] == list(range(len(sizes)))
    for own in shares.ranges:
        nodes = subtrees(own, (0, blocks))
        assert [at for node in nodes for at in range(*node)] == list(own)
        assert len(nodes) <= 2 * blocks.bit_length()


def test_two_workers_halve_a_step_and_send_one_sum_each() -> None:
    sizes = np.random.default_rng(0).integers(80, 160, size=64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    shares = Shares.of(offsets, 1024, Workers(0, 2))
    assert len(shares.cuts) == 8
    assert [subtrees(own, (0, 8)) for own in shares.ranges] == [[(0, 4)], [(4, 8)]]
    documents = [offsets[shares.cuts[own[-1]][1]] - offsets[shares.cuts[own[0]][0]]
                 for own in shares.ranges]  # fmt: skip
    assert abs(documents[0] - documents[1]) <= sizes.max()


def test_a_worker_that_is_gone_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise RuntimeError("Connection closed by peer [127.0.0.1]:42")

    monkeypatch.setattr(torch.distributed, "all_gather", lost)
    monkeypatch.setattr(torch.distributed, "isend", lost)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    for count in (2, 3):
        with pytest.raises(EngineError, match="another worker is gone"):
            Workers(0, count).agree(3)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Items of long lists, so that a step has several blocks, and their counts."""
    folder = tmp_path_factory.mktemp("workers")
    train = synthetic("mslr", queries=120, seed=0).train
    shown = np.random.default_rng(0).normal(size=train.documents)
    items = replace(train, production=shown)
    write_items(items, folder / "items.parquet")
    counts = simulate(items, shown, trust_bias(), sessions=3000, seed=0)
    save_counts(counts, items, folder / "counts.parquet")
    return folder


def command(world: Path, output: Path, count: int | None, steps: int = 60) -> list[str]:
    start = ["-m", "torch.distributed.run", "--nproc-per-node", str(count)] if count else []
    given = [
        *start, "-m", "saferank", "learn", "--items", world / "items.parquet", "--counts",
        world / "counts.parquet", "--bias", "trust-bias", "--production-policy", "sampled",
        "--steps", steps, "-o", output,
    ]  # fmt: skip
    return [sys.executable, *map(str, given)]


def parameters(run: Path) -> bytes:
    return (run / "scorer.safetensors").read_bytes()


@pytest.mark.slow
def test_one_two_and_four_workers_learn_the_same_bits(world: Path, tmp_path: Path) -> None:
    for count in (None, 1, 2, 4):
        subprocess.run(command(world, tmp_path / str(count), count), check=True)
    learned = {parameters(tmp_path / str(count)) for count in (None, 1, 2, 4)}
    assert len(learned) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"None", "1", "2", "4"}


@pytest.mark.slow
def test_a_killed_worker_leaves_a_run_that_goes_on_to_the_same_bits(
    world: Path, tmp_path: Path
) -> None:
    steps = 600
    subprocess.run(command(world, tmp_path / "whole", None, steps), check=True)
    run = tmp_path / "run"
    process = subprocess.Popen(command(world, run, 2, steps), start_new_session=True)
    checkpoint = tmp_path / ".run.checkpoint"
    try:
        while not list(checkpoint.glob("*/ranker/state.json")):
            assert process.poll() is None, "it ended before a worker could be killed"
            time.sleep(0.02)
        os.kill(_children(process.pid)[1], signal.SIGKILL)
        assert process.wait(timeout=300) != 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert not run.exists()
    subprocess.run(command(world, run, 2, steps), check=True)
    assert parameters(run) == parameters(tmp_path / "whole")
    assert not checkpoint.exists()


def _children(parent: int) -> list[int]:
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii")
    return sorted(int(child) for child in text.split())


TRAIN = """
import sys
from pathlib import Path
import saferank as sr
from saferank.counts import CountTable
from saferank.learning.workers import together
from saferank.logs import align

folder, output = map(Path, sys.argv[1:])
items, model = sr.data.read_items(folder / "items.parquet"), sr.clicks.trust_bias()
counts, _ = align(CountTable.open(folder / "counts.parquet"), items, ranks=model.ranks)
with together() as all_of_us:
    assert all_of_us.count == 2
    ranker = sr.learn(items, counts, model, production=items.production, seed=0,
                      production_kind="sampled", settings=sr.learning.Settings(steps=60))
    if all_of_us.writes:
        ranker.save(output)
"""


SPREAD = """
import sys
from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
TorchDistributor(num_processes=2, local_mode=True, use_gpu=False).run(*sys.argv[1:])
spark.stop()
"""


@pytest.mark.slow
def test_sparks_distributor_learns_the_same_bits(world: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    subprocess.run(command(world, tmp_path / "alone", None), check=True)
    script, spread = tmp_path / "train.py", tmp_path / "spread.py"
    script.write_text(TRAIN, encoding="utf-8")
    spread.write_text(SPREAD, encoding="utf-8")
    # in a process of its own: PySpark leaves pipes open
    subprocess.run([sys.executable, spread, script, world, tmp_path / "spark"], check=True)
    assert parameters(tmp_path / "spark") == parameters(tmp_path / "alone")
