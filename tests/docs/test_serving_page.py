"""docs/serving.md: a server is started, asked, clicked on, and its log counted and watched."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import DOCS, Command, run_quietly, shell_commands
from serving.test_serve_command import ask, served

import saferank as sr

PAGE = shell_commands(DOCS / "serving.md")


def save_run(folder: Path) -> None:
    """Items of two features as on the page, and a ranker certified behind a mixing guard."""
    rng, queries, size = np.random.default_rng(0), 30, 8
    data = sr.data.RankingData(
        rng.random((queries * size, 2)).astype(np.float32),
        np.arange(0, queries * size + 1, size),
        feature_names=("price", "stock"),
        labels=rng.integers(0, 5, queries * size),
        production=rng.normal(size=queries * size, scale=2),
        query_ids=np.array([f"q{number}" for number in range(queries)]),
        doc_ids=np.array([f"d{number}" for number in range(queries * size)]),
    )
    users = sr.clicks.trust_bias()
    counts = sr.clicks.simulate(data, data.production, users, sessions=5000, seed=0)
    ranker = sr.learn(
        data, counts, users, scorer="linear", production=data.production, seed=0,
        settings=sr.learning.Settings(steps=20),
    )  # fmt: skip
    rule = sr.safety.Rule(guard=True, guard_mode="mix", by="promise")
    ranker.save(folder / "run")
    promise = sr.safety.Promise(0.9, 0.0)
    sr.assess(ranker, data, promise=promise, rule=rule).save(folder / "run")
    sr.data.write_items(data, folder / "items.parquet")


def post(command: Command, port: int, **changes: Any) -> Any:
    """What the server answers to a request of the page, as curl would send it."""
    _, address, _, header, _, body = shlex.split(command.text)
    name, _, value = header.partition(": ")
    asked = {**json.loads(body), **changes}
    status, answer = ask(port, "POST", address.removeprefix("localhost:8000"), asked, {name: value})
    assert status < 300, answer
    return json.loads(answer) if answer else None


def answer_of(command: Command) -> dict[str, Any]:
    """The page's answer, which leaves some of it out."""
    return json.loads(" ".join(command.said).replace("}, ...]", "}]"))


@pytest.mark.slow
def test_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_run(tmp_path)
    rank, click = (each for each in PAGE if each.text.startswith("curl "))
    (serve,) = (each for each in PAGE if each.text.startswith("saferank serve"))
    with served(*shlex.split(serve.text)[2:]) as (process, port):
        answer = post(rank, port)
        assert list(answer) == list(answer_of(rank))
        assert list(answer["documents"][0]) == list(answer_of(rank)["documents"][0])
        rng = np.random.default_rng(0)
        for session in range(200):
            shown = post(
                rank, port, query_id=f"q{session % 9}", session_id=f"s{session}",
                doc_ids=list("abcdefgh"), features=rng.random((8, 2)).tolist(),
                production=rng.normal(size=8, scale=2).tolist(),
            )  # fmt: skip
            if rng.random() < 0.5:
                first = shown["documents"][0]["doc_id"]
                post(click, port, request_id=shown["request_id"], doc_id=first)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    for command in PAGE:
        if command.is_run and command is not serve:
            run_quietly(command.text, monkeypatch)


def test_the_page_has_all_of_it() -> None:
    assert [each.text.split()[1] for each in PAGE if each.is_run] == [
        "serve", "logs", "count", "watch", "export", "export", "watch",
    ]  # fmt: skip
