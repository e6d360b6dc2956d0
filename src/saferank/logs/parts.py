"""Counts in two parts, as Ibis expressions of the local DuckDB.

Until they are written, both parts of a (query, document, rank) share a row: `impressions`, `clicks`
of all sessions beside `judge_impressions`, `judge_clicks`; likewise the sessions of a query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from saferank.counts.count_table import COLUMNS, KEYS, PARTED
from saferank.counts.split import Split
from saferank.logs.tally import INVERSE, propensity, total


@dataclass(frozen=True, eq=False)
class Parts:
    """Counts that know what of them is to judge by."""

    split: Split
    counts: Any
    """query_id, doc_id, rank, impressions, clicks and, unless the split is off, the judge's.

    With `inverse` where propensities are recorded: production is one policy in both parts.
    """
    by_query: Any | None = None
    """query_id, sessions and, unless the split is off, judge_sessions; cluster: the user's hash."""
    drawn: tuple[int, int] | None = None
    """Sessions to learn from and to judge by, where they were drawn."""

    @classmethod
    def by_whole_queries(cls, split: Split, counts: Any) -> Parts:
        """Counts of a log without sessions: all of a query is to learn from, or to judge by."""
        judged = split.hash().chooses(counts.query_id)
        judge = {f"judge_{name}": judged.ifelse(counts[name], 0) for name in COLUMNS[3:]}
        return cls(split, counts.mutate(**judge))

    def totals(self) -> dict[str, int]:
        """What there is to judge by, and the sessions of both parts where they are known."""
        if self.split.off:
            return {}
        counts, by_query = self.counts, self.by_query
        judged = counts.filter(counts.judge_impressions > 0)
        totals = judged.agg(
            judge_impressions=total(judged.judge_impressions).coalesce(0),
            judge_queries=judged.query_id.nunique(),
        )
        row = dict(totals.to_pyarrow().to_pylist()[0])
        learn_judge = self.drawn
        if by_query is not None:
            sums = by_query.agg(
                sessions=total(by_query.sessions).coalesce(0),
                judge=total(by_query.judge_sessions).coalesce(0),
            )
            sessions, judge = sums.to_pyarrow().to_pylist()[0].values()
            learn_judge = sessions - judge, judge
        if learn_judge is not None:
            row["learn_sessions"], row["judge_sessions"] = learn_judge
        return row

    def table(self) -> Any:
        """One row for each (query, document, rank) of a part, sorted."""
        if self.split.off:
            counts = self.counts
            if self.by_query is not None:
                counts = counts.inner_join(self.by_query, "query_id")
            more = [name for name in ("sessions", "cluster") if name in counts.columns]
            columns = [*COLUMNS, *more]
            written = counts.select(*columns, **_recorded(counts))
            return written.cast({"rank": "int32"}).order_by(*KEYS)
        wide = self.counts if self.by_query is None else self._with_sessions(self.by_query)
        long = _part(wide, "judge").union(_part(wide, "learn"))
        return long.cast({"rank": "int32"}).order_by(*KEYS, "part")

    def _with_sessions(self, by_query: Any) -> Any:
        """The counts beside the sessions and the impressions of their query in each part."""
        shown = self.counts.group_by("query_id").agg(
            query_impressions=total(self.counts.impressions),
            query_judge_impressions=total(self.counts.judge_impressions),
        )
        columns = [*self.counts.columns, *by_query.drop("query_id").columns]
        with_sessions = self.counts.inner_join(by_query, "query_id").select(*columns)
        return with_sessions.inner_join(shown, "query_id").select(
            *columns, "query_impressions", "query_judge_impressions"
        )


def _part(wide: Any, name: str) -> Any:
    """The rows of one part.

    Rows without impressions are kept where a document was never shown, and where they are all that
    tells of a query's sessions in this part.
    """
    import ibis

    def of_part(column: str, prefix: str = "") -> Any:
        judge = wide[f"{prefix}judge_{column}"]
        return judge if name == "judge" else wide[f"{prefix}{column}"] - judge

    impressions = of_part("impressions")
    kept = impressions > 0
    if name == "learn":
        kept |= wide.impressions == 0
    columns = {
        **{key: wide[key] for key in KEYS},
        "part": ibis.literal(name),
        "impressions": impressions,
        "clicks": of_part("clicks"),
    }
    if "sessions" in wide.columns:
        columns["sessions"] = of_part("sessions")
        silent = of_part("impressions", "query_") == 0
        kept |= silent & (columns["sessions"] > 0)
    if "cluster" in wide.columns:
        columns["cluster"] = wide.cluster
    columns |= _recorded(wide)
    assert list(columns)[:6] == list(PARTED)
    return wide.filter(kept).select(**columns)


def _recorded(counts: Any) -> dict[str, Any]:
    """The propensity of each row, where it is recorded."""
    return {"propensity": propensity(counts)} if INVERSE in counts.columns else {}
