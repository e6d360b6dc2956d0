"""What a guard does and costs, in a record and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from saferank.safety.guarded import what_is_left
from saferank.safety.promise import Promise


@dataclass(frozen=True)
class GuardReport:
    """How often the guard steps in, and what that costs."""

    promise: Promise
    queries: int
    share: float
    """Share of the queries where it steps in, and of the traffic."""
    traffic: float
    mixing: float
    """Share of the possible gain that is kept: of a mixture the new ranker's share of traffic."""
    cost: float | None = None
    """Estimated utility per session that the guard gives up, where gains are known."""
    gain: float | None = None
    """Estimated utility per session that the new ranker adds to production without the guard."""
    mode: str = "mix"

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return asdict(self)

    def sentence(self) -> str:
        """The report in one sentence."""
        text = (
            f"The guard steps in on {self.share:.1%} of {self.queries:,} queries; "
            f"{what_is_left(self.mode, f'{self.mixing:.1%}')}"
        )
        if self.cost is not None and self.gain is not None:
            text += f"; it gives up {self.cost:.4g} of an estimated change of {self.gain:+.4g}"
        return text + "."
