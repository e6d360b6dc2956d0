"""The endpoint: what it answers is what was certified, and what it refuses gets one sentence."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving.asgi import Client
from serving.served_runs import (
    DATA,
    QUERIES,
    RANKER,
    SIZE,
    WAYS,
    arrow,
    columns,
    request,
    save_run,
    stream_of,
)

from saferank.data.groups import Groups
from saferank.errors import InputError
from saferank.safety import Promise, Rule, assess
from saferank.serving.app import Limits, create_app
from saferank.serving.endpoint.arrow_bodies import read_arrow
from saferank.serving.endpoint.json_bodies import JsonReader
from saferank.serving.endpoint.served_rankers import runs_of
from saferank.serving.endpoint.served_run import ServedRun, scores_of_ranks
from saferank.serving.export import export
from saferank.serving.rankings import Serving, rankings

ARROW = "application/vnd.apache.arrow.stream"
PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {way: save_run(folder / way.replace(" ", "-"), way) for way in WAYS}


@pytest.fixture(scope="module")
def client(runs):
    with Client(create_app(runs, uncertified=True, limits=Limits(200_000, 50, 0.3))) as client:
        yield client


@pytest.mark.parametrize("way", WAYS)
def test_answers_are_the_rankings_that_were_certified(client, runs, way):
    """By another route: `saferank rank`, which goes through all items at once."""
    serving = Serving.of_run(runs[way], guard=WAYS[way][1] is not None)
    sessions = [(query, f"user {n}") for query in range(0, QUERIES, 5) for n in range(4)]
    asked = pa.table({
        "query_id": [f"q{query}" for query, _ in sessions], "session_id": [s for _, s in sessions],
    })  # fmt: skip
    table, _ = rankings(serving, DATA, DATA.production, k=3, sessions=asked)
    wanted: dict[Any, Any] = {}
    for row in table.to_pylist():
        wanted.setdefault((row["query_id"], row["session_id"]), []).append(row)
    for query, session in sessions:
        answer = client.post("/rank", request(query, session, ranker=way, k=3))
        assert answer.status == 200
        record, rows = answer.json(), wanted[f"q{query}", session]
        assert [d["doc_id"] for d in record["documents"]] == [row["doc_id"] for row in rows]
        assert [d["rank"] for d in record["documents"]] == [1, 2, 3]
        for document, row in zip(record["documents"], rows, strict=True):
            assert document["score"] == pytest.approx(row["score"])
            if "propensity" in row:
                assert document["propensity"] == pytest.approx(row["propensity"], abs=1e-12)
        if "arm" in rows[0]:
            assert record["arm"] == rows[0]["arm"]
            assert record["share"] == pytest.approx(rows[0]["share"], abs=1e-9)
        else:
            assert (record["arm"], record["share"]) == ("new", 1.0)
        assert record["request_id"] == answer.headers["x-request-id"]


def test_every_form_of_a_request_gets_the_same_answer(client):
    def documents(answer):
        assert answer.status == 200, answer.body
        return answer.json()["documents"]

    address = "/rank?query_id=q2&session_id=s&k=7&ranker=mix"
    wanted = documents(client.post("/rank", request(2, ranker="mix", k=7)))
    named = request(2, ranker="mix", k=7, features=columns(2))
    assert documents(client.post("/rank", named)) == wanted
    for shape in (False, True):
        assert documents(client.post(address, arrow(2, named=shape), content_type=ARROW)) == wanted


def test_lists_shorter_than_k_and_sessions_without_a_name(client):
    short = {"doc_ids": ["a", 7], "features": request()["features"][:2], "production": [1, 2.5]}
    for way in WAYS:
        answer = client.post("/rank", request(session=None, ranker=way, k=9, **short)).json()
        assert {document["doc_id"] for document in answer["documents"]} == {"a", 7}
        assert answer["session_id"] == answer["request_id"]


def changed(**changes):
    return request(ranker="mix", **changes)


BAD = [
    (b"", "must be JSON"),
    (b"[1, 2]", "a JSON object"),
    (b'{"query_id": "q"', "must be JSON"),
    (b"\xff\xfe", "must be JSON"),
    ({"query_id": "q"}, "`doc_ids`"),
    (changed(colour="red"), "colour"),
    (changed(doc_ids=[]), "`doc_ids` must be a list of ids"),
    (changed(doc_ids=["a"] * SIZE), "different ids"),
    (changed(doc_ids=[*map(str, range(51))]), "at most 50 documents"),
    (changed(doc_ids=[*range(SIZE - 1), 1.5]), "a text or a whole number"),
    (changed(doc_ids=[*range(SIZE - 1), ""]), "1 to 512 characters"),
    (changed(query_id={"a": 1}), "`query_id`"),
    (changed(session_id="x" * 513), "`session_id`"),
    (changed(features=[[1, 2]]), f"must be {SIZE} lists"),
    (changed(features=[[1, 2]] * SIZE), "5 per document"),
    (changed(features=[[1, 2, 3, 4, 5]] * (SIZE - 1) + [[1, 2, 3, 4]]), "lists of 5 numbers"),
    (changed(features=[[1, 2, 3, 4, [5]]] + [[1, 2, 3, 4, 5]] * (SIZE - 1)), "numbers or null"),
    (changed(features=[[1, 2, 3, 4, "5"]] * SIZE), "numbers or null"),
    (changed(features=[[1, 2, 3, 4, True]] * SIZE), "numbers or null"),
    (changed(features={"price": [1] * SIZE}), "missing: `clicks`"),
    (changed(features={"price": [1]}), "a list of 20 values"),
    (changed(features={**columns(), "price": [1] * 19 + ["a"]}), "one kind"),
    (changed(features={**columns(), "query_id": [1] * 20}), "without a column `query_id`"),
    (changed(features=3), "lists of numbers"),
    (changed(production=None), "`production` must be given"),
    (changed(production=[1.0]), "a list of 20 numbers"),
    (changed(production=[1.0] * 19 + [None]), "finite numbers"),
    (changed(k=0), "at least 1"),
    (changed(k="3"), "at least 1"),
    (changed(k=True), "at least 1"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "sentence"), BAD)
def test_bad_requests_get_one_sentence(client, body, sentence):
    answer = client.post("/rank", body)
    record = answer.json()
    assert (answer.status, answer.headers["content-type"]) == (400, PROBLEM)
    assert sentence in record["detail"]
    assert len(record["detail"]) <= 300
    assert record["request_id"] == answer.headers["x-request-id"]
    assert client.post("/rank", request()).status == 200


def test_other_refusals_are_problems_too(client):
    for answer, status in (
        (client.post("/rank", request(ranker="purple")), 404),
        (client.get("/nowhere"), 404),
        (client.get("/rank"), 405),
        (client.post("/clicks", {"request_id": "r", "doc_id": "d"}), 404),
        (client.post("/rank", b"x" * 200_001), 413),
        (client.post("/rank", b"{}", content_length="9" * 30), 413),
        (client.post("/rank", b"{}", content_type="text/plain"), 415),
        (client.runner.run(client.call("POST", "/rank", [b"{", 0.6, b"}"], {})), 408),
    ):
        assert (answer.status, answer.headers["content-type"]) == (status, PROBLEM)
        assert answer.json()["status"] == status


def hostile_streams():
    plain = arrow()
    good = pa.table({"doc_id": ["a", "b"]})
    yield arrow(options=pa.ipc.IpcWriteOptions(compression="zstd")), "without compression"
    yield stream_of(pa.table({"doc_id": pa.array(["a"]).dictionary_encode()})), "dictionaries"
    yield stream_of(pa.table({"doc_id": pa.nulls(10**9)})), "1 to 50 rows"
    yield plain[:-40], "Arrow IPC stream"
    yield b"", "begin with a schema"
    yield stream_of(good), "they have none"
    yield stream_of(pa.table({"x": [1]})), "a column doc_id"
    yield stream_of(good.append_column("production_score", pa.array(["1", "2"]))), "numbers"
    yield stream_of(pa.table([["a"], ["b"]], names=["doc_id", "doc_id"])), "different column names"


def test_hostile_arrow_is_refused_before_it_takes_memory(client):
    for body, sentence in hostile_streams():
        answer = client.post("/rank?query_id=q", body, content_type=ARROW)
        assert (answer.status, answer.headers["content-type"]) == (400, PROBLEM), sentence
        assert sentence in answer.json()["detail"]
    assert "query_id" in client.post("/rank", arrow(), content_type=ARROW).json()["detail"]


def mutations(bodies, count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        body = bytearray(bodies[rng.integers(len(bodies))])
        for _ in range(rng.integers(1, 8)):
            at, kind = int(rng.integers(len(body))), rng.integers(4)
            if kind == 0:
                body[at] = int(rng.integers(256))
            elif kind == 1:
                del body[at : at + int(rng.integers(1, 40))]
            elif kind == 2:
                body[at:at] = bytes(body[: int(rng.integers(1, 40))])
            else:
                body[at : at + 1] = rng.choice([b"[", b"]", b"null", b"1e999", b'"', b"-", b"\x00"])
            body = body or bytearray(b"{")
        yield bytes(body)


def fuzz(client, count, seed):
    """No mutation of a request may take the server down, or be a fault of its own."""
    seen: dict[Any, Any] = {}
    plain = [json.dumps(changed()).encode(), json.dumps(changed(features=columns())).encode()]
    streams = [arrow(), arrow(named=True)]
    for bodies, kind, address in (
        (plain, "application/json", "/rank"),
        (streams, ARROW, "/rank?query_id=q&ranker=mix"),
    ):
        for body in mutations(bodies, count // 2, seed):
            answer = client.post(address, body, content_type=kind)
            seen[answer.status] = seen.get(answer.status, 0) + 1
            assert answer.status in (200, 400, 404, 413), (answer.body, body)
    assert client.post("/rank", request()).status == 200
    return seen


def test_mutated_requests_are_answered_or_refused(client):
    seen = fuzz(client, 600, seed=0)
    assert seen[400] > 100


@pytest.mark.slow
def test_ten_thousand_mutated_requests_are_answered_or_refused(client):
    fuzz(client, 10_000, seed=1)


@given(st.lists(st.lists(st.floats(allow_nan=False, width=64), min_size=2, max_size=2), min_size=1))
@settings(max_examples=50)
def test_numbers_are_read_as_python_reads_them(rows):
    rows = [[value if abs(value) < 1e300 else 0.5 for value in row] for row in rows]
    body = json.dumps({"features": rows}).encode()
    read = JsonReader().read(body, ["features"])["features"].values
    np.testing.assert_array_equal(read, np.array(rows))


def test_only_the_token_opens(runs):
    token = "a token of enough letters"
    with Client(create_app({"mix": runs["mix"]}, token=token)) as client:
        right = f"Bearer {token}"
        for path in ("/rankers", "/metrics", "/status.json"):
            assert client.get(path).status == 401
            assert client.get(path, authorization="Bearer no").status == 401
            assert client.get(path, authorization=f"Basic {token}").status == 401
            assert client.get(path, authorization=right).status == 200
        for path in ("/health", "/ready", "/"):
            assert client.get(path).status == 200
        answer = client.post("/rank", request())
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert client.post("/rank", request(), authorization=right).status == 200
    with pytest.raises(InputError, match="16 characters"):
        create_app({"mix": runs["mix"]}, token="short")


def test_only_what_was_certified_to_be_shipped_is_served(runs, tmp_path):
    with pytest.raises(InputError, match="not fit to be shipped"):
        create_app(runs["sampled"])
    RANKER.save(tmp_path / "plain")
    with pytest.raises(InputError, match="must be certified"):
        create_app(tmp_path / "plain")
    assert ServedRun.load(tmp_path / "plain", uncertified=True).way == "sampled"
    with pytest.raises(InputError, match="left out"):
        ServedRun.load(runs["mix"], production=runs["mix"])
    with pytest.raises(InputError, match="must name one run"):
        runs_of(["a/run", "b/run"])


def test_floors_for_groups_are_refused_where_groups_are_not_known(tmp_path):
    groups = Groups.of([f"brand {n % 3}" for n in range(DATA.documents)], "brand")
    rule = Rule(guard=True, guard_mode="mix", by="promise")
    certified = assess(
        RANKER, replace(DATA, groups=groups), promise=Promise(0.9, 0.01, floor=0.5), rule=rule
    )
    RANKER.save(tmp_path / "run")
    certified.save(tmp_path / "run")
    with pytest.raises(InputError, match="requests name no groups"):
        create_app(tmp_path / "run")
    with pytest.raises(InputError, match="knows nothing of groups"):
        export(tmp_path / "run", "onnx", tmp_path / "m.onnx", guard=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    assert "--group COLUMN" in certified.decision.next_step


def test_a_run_that_is_written_again_is_read_again(runs, tmp_path):
    place = save_run(tmp_path / "run", "mix")
    with Client(create_app(place, reload_seconds=0.05)) as client:

        async def ask():
            asked = [json.dumps(request(session=None)).encode()]
            return await client.call("POST", "/rank", asked, {})

        async def while_asking():
            writing = asyncio.create_task(asyncio.to_thread(save_run, place, "best"))
            answers: list[Any] = []
            while not writing.done() or answers[-1].json()["share"] != 1 or len(answers) < 5:
                answers.append(await ask())
                await asyncio.sleep(0.01)
            return answers

        assert client.post("/rank", request()).json()["share"] < 1
        answers = client.runner.run(asyncio.wait_for(while_asking(), 60))
        assert {answer.status for answer in answers} == {200}
        assert client.get("/status.json").json()["rankers"] == {"run": {"served": "guard, best"}}
        (place / "assessment.json").write_text("{}")
        client.wait(0.5)
        assert client.get("/status.json").json()["problems"]
        assert client.post("/rank", request()).json()["share"] == 1


def test_metrics_count_what_was_done(runs):
    with Client(create_app({"mix": runs["mix"]})) as client:
        arms = [client.post("/rank", request(session=n)).json()["arm"] for n in range(60)]
        client.post("/rank", b"{")
        text = client.get("/metrics").body.decode()
        for arm in ("new", "production"):
            line = f'saferank_lists_total{{arm="{arm}",ranker="mix"}} {float(arms.count(arm))}'
            assert line in text
        assert 'saferank_requests_total{route="rank",status="400"} 1.0' in text
        status = client.get("/status.json").json()
        assert status["requests"]["rank 200"] == 60
        assert 0 < status["milliseconds"]["p50"] <= status["milliseconds"]["p99"]
        share = client.post("/rank", request()).json()["share"]
        assert status["share"]["mix"] == pytest.approx(share)


def test_the_page_runs_its_own_script_only(client):
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert b"http://" not in answer.body
    assert b"https://" not in answer.body


def test_what_production_made_is_taken_as_it_is():
    scores = scores_of_ranks(np.array([2.0, np.nan, 1.0, np.nan]))
    assert np.argsort(-scores, kind="stable").tolist() == [2, 0, 1, 3]
    for bad in ([0.0, 1.0], [1.0, 1.0], [np.nan, np.nan]):
        with pytest.raises(InputError, match="production_rank"):
            scores_of_ranks(np.array(bad))


def test_arrow_of_several_batches():
    table = pa.table({"doc_id": ["a", "b", "c"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    columns = read_arrow(sink.getvalue().to_pybytes(), 3)
    assert [len(column) for column in columns.values()] == [3] * len(columns)
    with pytest.raises(InputError, match="1 to 2 rows"):
        read_arrow(sink.getvalue().to_pybytes(), 2)
