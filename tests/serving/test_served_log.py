"""What the endpoint logs: whole files, clicks joined, in the form that `count` and `watch` read."""

import json
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from serving.asgi import Client
from serving.served_runs import request, save_run
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.errors import InputError
from saferank.serving.app import Logging, create_app
from saferank.serving.endpoint import shown_log as shown_logs
from saferank.serving.endpoint.served_log import join_clicks
from saferank.serving.endpoint.shown_log import Click, click_log


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return save_run(tmp_path_factory.mktemp("served") / "run", "held")


def serve_some(run, folder, lists=80, seed=0):
    """Ask, and click on some of what comes: what was shown and what was clicked."""
    rng, shown, clicked = np.random.default_rng(seed), [], set()
    with Client(create_app(run, log=Logging(folder))) as client:
        for number in range(lists):
            asked = request(query=number % 4, session=f"user {number}")
            answer = client.post("/rank", asked).json()
            shown.append(answer)
            for document in answer["documents"]:
                if rng.random() < 0.3:
                    click = {"request_id": answer["request_id"], "doc_id": document["doc_id"]}
                    body = click if rng.random() < 0.5 else {"clicks": [click, click]}
                    assert client.post("/clicks", body).status == 202
                    clicked.add((answer["request_id"], document["doc_id"]))
        client.post("/clicks", {"request_id": 32 * "0", "doc_id": "d1"})
        assert client.get("/status.json").json()["clicks"] >= len(clicked)
    return shown, clicked


def test_the_log_is_what_was_shown_with_its_clicks(run, tmp_path):
    shown, clicked = serve_some(run, tmp_path / "logs")
    assert join_clicks(tmp_path / "logs").waiting == 1  # clicks may still come
    joined = join_clicks(tmp_path / "logs", window=0, now=time.time() + 1)
    assert (joined.files, joined.rows, joined.clicks) == (1, 240, len(clicked))
    assert "1 file with 240 rows" in joined.sentence()
    assert join_clicks(tmp_path / "logs", window=0).files == 0
    rows = pq.read_table(next((tmp_path / "logs" / "log").glob("*.parquet"))).to_pylist()
    wanted = [
        {
            "request_id": answer["request_id"], "session_id": answer["session_id"],
            "query_id": answer["query_id"], "arm": answer["arm"], "share": answer["share"],
            "ranker": "run", "fingerprint": answer["fingerprint"], **document,
            "click": int((answer["request_id"], document["doc_id"]) in clicked),
        }
        for answer in shown
        for document in answer["documents"]
    ]  # fmt: skip
    for row in rows:
        assert abs(row.pop("timestamp").timestamp() - time.time()) < 600
    assert rows == wanted


def test_count_and_watch_read_it_as_it_is(run, tmp_path):
    shown, clicked = serve_some(run, tmp_path / "logs", lists=200)
    join_clicks(tmp_path / "logs", window=0, now=time.time() + 1)
    log, counts = str(tmp_path / "logs" / "log"), tmp_path / "counts.parquet"
    told = CliRunner().invoke(
        app, ["count", log, "--column", "propensity=propensity", "-o", str(counts), "--json"]
    )
    assert told.exit_code == 0, told.output
    table = pq.read_table(counts).to_pylist()
    assert sum(row["impressions"] for row in table) == 600
    assert sum(row["clicks"] for row in table) == len(clicked)
    watched = CliRunner().invoke(app, ["watch", log, "--json"])
    assert watched.exit_code == 4, watched.output
    record = json.loads(watched.output)
    assert record["sessions"] == 200
    production = [answer for answer in shown if answer["arm"] == "production"]
    clicks = [
        (answer["request_id"], document["doc_id"]) in clicked
        for answer in production
        for document in answer["documents"]
    ]
    by_hand = sum(clicks) / 0.25 / 200
    assert record["metrics"][0]["production"] == pytest.approx(by_hand)


def test_clicks_count_in_their_window_only(run, tmp_path):
    shown, _ = serve_some(run, tmp_path, lists=2)
    first, second = (answer["request_id"] for answer in shown)
    documents = [answer["documents"][0]["doc_id"] for answer in shown]
    (path,) = (tmp_path / "shown").glob("*.parquet")
    for file in (tmp_path / "clicks").glob("*.parquet"):
        file.unlink()
    written, log = path.stat().st_mtime, click_log(tmp_path)
    log.add(Click(first, documents[0], written + 50))
    log.add(Click(second, documents[1], written + 150))
    log.roll()
    assert join_clicks(tmp_path, window=100, now=written + 99).files == 0
    assert join_clicks(tmp_path, window=100, now=written + 101).clicks == 1
    with pytest.raises(InputError, match="serve --log"):
        join_clicks(tmp_path / "nowhere")


BAD = [
    ({"request_id": 5, "doc_id": "a"}, "`request_id`"),
    ({"request_id": "r"}, "objects of request_id and doc_id"),
    ({"clicks": []}, "1 to 10,000 clicks"),
    ({"clicks": [{"request_id": 32 * "a", "doc_id": None}]}, "`doc_id`"),
    ({"request_id": "never answered", "doc_id": "a"}, "32 digits"),
    ({"clicks": ["r"]}, "objects of request_id and doc_id"),
]


@pytest.mark.parametrize(("body", "sentence"), BAD)
def test_bad_clicks_get_one_sentence(run, tmp_path, body, sentence):
    with Client(create_app(run, log=tmp_path)) as client:
        answer = client.post("/clicks", body)
        assert answer.status == 400
        assert sentence in answer.json()["detail"]


def test_a_log_that_cannot_be_written_is_told_and_kept(run, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError("no space left")

    with Client(create_app(run, log=Logging(tmp_path, seconds=0.01))) as client:
        monkeypatch.setattr(shown_logs, "write_table", full)
        client.post("/rank", request())
        client.wait(1.2)
        assert client.get("/ready").status == 503
        assert client.post("/rank", request()).status == 200
        assert client.get("/status.json").json()["problems"]
        monkeypatch.undo()
    (path,) = (tmp_path / "shown").glob("*.parquet")
    assert pq.read_table(path).num_rows == 6  # both lists, once the disk can be written again


def test_what_waits_for_a_disk_is_bounded(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr(shown_logs, "write_table", full)
    monkeypatch.setattr(shown_logs, "MOST_ROWS", 10)
    log = click_log(tmp_path)
    for number in range(25):
        log.add(Click("r", number, 0.0))
    assert log.roll() is None
    assert (log.lost, log.written) == (15, 0)
    monkeypatch.undo()
    assert [row["doc_id"] for row in pq.read_table(log.roll()).to_pylist()] == [
        str(number) for number in range(15, 25)
    ]


def test_the_command_joins(run, tmp_path):
    serve_some(run, tmp_path, lists=3)
    told = CliRunner().invoke(app, ["logs", "join", str(tmp_path), "--window", "0"])
    assert told.exit_code == 0
    assert "1 file with 9 rows" in told.output
