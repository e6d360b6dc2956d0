import json

from typer.testing import CliRunner

from saferank.cli.app import app


def test_the_demo_goes_the_whole_way(tmp_path):
    options = [
        "demo",
        "-o",
        str(tmp_path / "demo"),
        "--queries",
        "40",
        "--sessions",
        "2000",
        "--json",
    ]
    result = CliRunner().invoke(app, options, catch_exceptions=False)
    told = json.loads(result.stdout)
    rankers = {row["ranker"]: row for row in told["rankers"]}
    assert list(rankers) == ["production", "ips", "dr", "safe-dr", "prpo", "skyline"]
    assert all(0 < row["expected"] < 1 for row in rankers.values())
    assert rankers["production"]["kept"] == 1
    assert (tmp_path / "demo" / "rankers.png").stat().st_size > 10_000
    page = (tmp_path / "demo" / "prpo" / "report.html").read_text()
    assert told["verdict"].partition(":")[0] in page
