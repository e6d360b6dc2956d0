"""What production was taken for, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from saferank.errors import InputError
from saferank.policies.production import Kind


@dataclass(frozen=True)
class ProductionFit:
    """What production was taken for, whether the log agrees, and why."""

    kind: Kind
    fits: bool | None
    """Whether the log agrees; None where there was too little to tell."""
    sentence: str
    temperature: float | None = None
    temperature_interval: tuple[float, float] | None = None
    asked_for: bool = False
    """The kind was asked for, not chosen by the log."""

    def to_dict(self) -> dict[str, Any]:
        """The fit for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Any) -> ProductionFit:
        """The fit of a JSON record."""
        try:
            between = record["temperature_interval"]
            return cls(**{**record, "temperature_interval": between and tuple(between)})
        except (KeyError, TypeError) as error:
            raise InputError(f"A record of production's policy is malformed; {error!r}.") from error
