"""`saferank serve` as a process: it starts, answers over HTTP, and ends in good order."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil
import pyarrow.parquet as pq
import pytest
from serving.served_runs import RANKER, request, save_run
from typer.testing import CliRunner

from saferank.cli.app import app


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def ask(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@contextmanager
def served(*options, **variables):
    """A server that is ready; it is ended afterwards whatever happened."""
    port = free_port()
    command = [sys.executable, "-m", "saferank", "serve", *map(str, options), "--port", str(port)]
    environment = {**os.environ, **variables}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True)
    try:
        for _ in range(600):
            assert process.poll() is None, process.stderr.read()
            try:
                if ask(port, "GET", "/ready")[0] == 200:
                    break
            except OSError:
                time.sleep(0.1)
        yield process, port
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return save_run(tmp_path_factory.mktemp("served") / "run", "held")


def test_a_server_answers_and_ends_in_good_order(run, tmp_path):
    token = "a token of enough letters"
    options = (f"blue={run}", "--log", tmp_path / "logs", "--roll", 600)
    with served(*options, SAFERANK_TOKEN=token) as (process, port):
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        assert ask(port, "POST", "/rank", request())[0] == 401
        for number in range(5):
            status, body = ask(port, "POST", "/rank", request(session=number), headers)
            assert status == 200
            assert json.loads(body)["ranker"] == "blue"
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0
    assert token not in said
    (path,) = (tmp_path / "logs" / "shown").glob("*.parquet")
    assert pq.read_table(path).num_rows == 15


def test_what_cannot_be_served_ends_with_a_sentence(tmp_path):
    RANKER.save(tmp_path / "run")
    for options in ([tmp_path / "run"], [tmp_path / "run", "--workers", "2"], ["nowhere"]):
        told = CliRunner().invoke(app, ["serve", *map(str, options)])
        assert isinstance(told.exception, ValueError)
    assert "SAFERANK_TOKEN" in CliRunner().invoke(app, ["serve", "--help"]).output


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_no_finished_file_is_lost_to_kill_9(run, tmp_path, workers):
    options = ("--log", tmp_path, "--roll", 0.2, "--workers", workers)
    asked = 0
    with served(run, *options) as (process, port):
        end = time.monotonic() + 8
        while time.monotonic() < end:
            assert ask(port, "POST", "/rank", request(session=asked))[0] == 200
            asked += 1
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
        ).stdout.split()
        for pid in [process.pid, *map(int, children)]:
            os.kill(int(pid), signal.SIGKILL)
    files = list((tmp_path / "shown").glob("*.parquet"))
    rows = sum(pq.read_table(path).num_rows for path in files)
    assert len(files) > 3
    assert rows % 3 == 0
    assert 3 * asked * 0.8 < rows <= 3 * asked


@pytest.mark.slow
def test_two_workers_add_up_their_metrics(run):
    with served(run, "--workers", 2) as (_, port):
        for number in range(40):
            assert ask(port, "POST", "/rank", request(session=number))[0] == 200
        status = json.loads(ask(port, "GET", "/status.json")[1])
        assert status["requests"]["rank 200"] == 40
        assert sum(status["lists"]["run"].values()) == 40


@pytest.mark.slow
def test_workers_end_with_their_parent(run, tmp_path):
    """They would go on serving, and hold the port."""
    options = ("--log", tmp_path, "--roll", 600, "--workers", 2)
    with served(run, *options) as (process, port):
        workers = psutil.Process(process.pid).children(recursive=True)
        for number in range(20):
            assert ask(port, "POST", "/rank", request(session=number))[0] == 200
        process.kill()
        _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive
    files = (tmp_path / "shown").glob("*.parquet")
    assert sum(pq.read_table(path).num_rows for path in files) == 60  # written at their end


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no Chromium")
def test_the_page_shows_live_counts_in_a_browser(run, tmp_path):
    """A name that is HTML stays text; counts by arm, share and latency are there."""
    name = "<b>blue</b>"
    with served(f"{name}={run}") as (_, port):
        arms = [
            json.loads(ask(port, "POST", "/rank", request(session=n))[1])["arm"] for n in range(30)
        ]
        told = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
             "--virtual-time-budget=3000", f"--user-data-dir={tmp_path}",
             f"http://127.0.0.1:{port}/"],
            capture_output=True, text=True, timeout=120,
        ).stdout  # fmt: skip
    assert "&lt;b&gt;blue" in told
    assert "<b>blue" not in told
    assert f'<td class="number">{arms.count("production")}</td>' in told
    assert f'<td class="number">{arms.count("new")}</td>' in told
    assert '<td class="number">75.0 %</td>' in told
    assert " ms</td>" in told
    assert "guard, best, 25.0% held out" in told
