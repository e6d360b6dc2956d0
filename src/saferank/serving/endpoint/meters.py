"""What the endpoint has done so far: Prometheus metrics, which the status page reads, too."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, Final

from saferank.errors import MissingExtraError

_BOUNDS: Final = (
    0.0002, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0,
    5.0,
)  # fmt: skip
ROUTES: Final = ("rank", "clicks")


class Meters:
    """Counts and latencies of one app; with several processes those of all of them.

    Processes share them where `PROMETHEUS_MULTIPROC_DIR` names a folder.
    """

    def __init__(self) -> None:
        try:
            import prometheus_client as prometheus
            from prometheus_client import multiprocess
        except ImportError as error:
            raise MissingExtraError("prometheus-client", "serve") from error
        self._prometheus = prometheus
        own = prometheus.CollectorRegistry()
        self._registry = own
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            self._registry = prometheus.CollectorRegistry()
            multiprocess.MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        self._requests = prometheus.Counter(
            "saferank_requests", "Requests by route and status.", ("route", "status"), registry=own
        )
        self._lists = prometheus.Counter(
            "saferank_lists", "Lists that were shown.", ("ranker", "arm"), registry=own
        )
        self._documents = prometheus.Counter(
            "saferank_documents", "Documents that were ranked.", registry=own
        )
        self._share = prometheus.Counter(
            "saferank_share", "Shares of the new ranker, added up over lists.", ("ranker",),
            registry=own,
        )  # fmt: skip
        self._clicks = prometheus.Counter("saferank_clicks", "Clicks reported.", registry=own)
        self._rows = prometheus.Counter(
            "saferank_log_rows", "Rows of the log: written, or lost for want of a disk.",
            ("fate",), registry=own,
        )  # fmt: skip
        self._seconds = prometheus.Histogram(
            "saferank_request_seconds", "From the whole request to its answer.", ("route",),
            buckets=_BOUNDS, registry=own,
        )  # fmt: skip
        self._reloads = prometheus.Counter(
            "saferank_reloads", "Runs that were read again.", registry=own
        )

        # labels are looked up once, not with every request
        self._answered = cache(self._find_answered)
        self._shown = cache(self._find_shown)

    def _find_answered(self, route: str, status: int) -> tuple[Any, Any]:
        label = route if route in ROUTES else "other"
        return self._requests.labels(label, str(status)), self._seconds.labels(label)

    def _find_shown(self, ranker: str, arm: str) -> tuple[Any, Any]:
        return self._lists.labels(ranker, arm), self._share.labels(ranker)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        count, time = self._answered(route, status)
        count.inc()
        time.observe(seconds)

    def shown(self, ranker: str, arm: str, share: float, documents: int) -> None:
        """A list was shown."""
        lists, shares = self._shown(ranker, arm)
        lists.inc()
        shares.inc(share)
        self._documents.inc(documents)

    def clicked(self, clicks: int) -> None:
        """Clicks were reported."""
        self._clicks.inc(clicks)

    def rolled(self, written: int, lost: int) -> None:
        """Rows went to the log, or were lost."""
        self._rows.labels("written").inc(written)
        self._rows.labels("lost").inc(lost)

    def reloaded(self, runs: int) -> None:
        """Runs were read again."""
        self._reloads.inc(runs)

    def text(self) -> tuple[bytes, str]:
        """All of it as Prometheus reads it, and the type of that."""
        prometheus = self._prometheus
        return prometheus.generate_latest(self._registry), prometheus.CONTENT_TYPE_LATEST

    def status(self) -> dict[str, Any]:
        """The same for the status page."""
        values: dict[str, list[tuple[dict[str, str], float]]] = {}
        for metric in self._registry.collect():
            for sample in metric.samples:
                values.setdefault(sample.name, []).append((sample.labels, sample.value))
        arms: dict[str, dict[str, float]] = {}
        for labels, value in values.get("saferank_lists_total", []):
            arms.setdefault(labels["ranker"], {})[labels["arm"]] = value
        shares = {
            labels["ranker"]: value / max(sum(arms.get(labels["ranker"], {}).values()), 1)
            for labels, value in values.get("saferank_share_total", [])
        }
        statuses: dict[str, float] = {}
        for labels, value in values.get("saferank_requests_total", []):
            key = f"{labels['route']} {labels['status']}"
            statuses[key] = statuses.get(key, 0) + value
        buckets = sorted(
            (float(labels["le"]), value)
            for labels, value in values.get("saferank_request_seconds_bucket", [])
            if labels["route"] == "rank"
        )
        return {
            "lists": arms,
            "share": shares,
            "requests": statuses,
            "clicks": sum(value for _, value in values.get("saferank_clicks_total", [])),
            "milliseconds": {
                name: _quantile(buckets, q) for name, q in (("p50", 0.5), ("p99", 0.99))
            },
        }


def _quantile(buckets: list[tuple[float, float]], q: float) -> float | None:
    """Milliseconds below which a share of the requests took, between bounds by a straight line."""
    total = buckets[-1][1] if buckets else 0
    low, before = 0.0, 0.0
    for bound, count in buckets:
        if total and count >= q * total:
            high = low if bound == float("inf") else bound
            inside = (q * total - before) / max(count - before, 1e-12)
            return 1000 * (low + inside * (high - low))
        low, before = bound, count
    return None
