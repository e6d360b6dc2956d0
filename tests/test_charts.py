import altair as alt
import pytest

from saferank._core.charts import COLOURS, save_chart, scale
from saferank.errors import InputError


def test_every_format_is_written_whole_and_pages_fetch_nothing(tmp_path):
    rows = [{"x": "<b>", "y": 1}, {"x": "c", "y": 2}]
    colour = alt.Color("x:N", scale=scale(["<b>", "c"], COLOURS))
    chart = alt.Chart(alt.Data(values=rows)).mark_bar().encode(x="x:N", y="y:Q", color=colour)
    starts = {".svg": b"<svg", ".png": b"\x89PNG", ".html": b"<!DOCTYPE html>", ".pdf": b"%PDF"}
    for suffix, start in starts.items():
        text = save_chart(chart, tmp_path / f"chart{suffix}").read_bytes()
        assert text.lstrip().startswith(start)
    page = (tmp_path / "chart.html").read_text()
    assert 'src="http' not in page
    assert len(list(tmp_path.iterdir())) == 4


def test_an_unknown_ending_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"must end with \.html"):
        save_chart(None, tmp_path / "chart.gif")
