"""`model/linear` of the Elasticsearch and OpenSearch plugins: a weight per feature, no constant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import numpy as np

from saferank._core.files import read_json
from saferank._core.flat import Floats
from saferank.errors import InputError
from saferank.serving.export.nesting import number
from saferank.serving.export.parity import Parity
from saferank.serving.export.source import Source
from saferank.serving.export.target import Target

_LARGEST_FILE: Final = 1 << 28


class Linear(Target):
    """Weights of raw features; scores lack the constant, which no ranking depends on."""

    single = True
    has_missing = False

    def constant(self, source: Source) -> float:
        """The constant that scores lack."""
        return float(source.folded_layers("model/linear", most=1)[0][1][0])

    def write(self, source: Source, path: Path) -> list[str]:
        """Write the weights by name."""
        ((weights, _),) = source.folded_layers("model/linear", most=1)
        record = dict(zip(source.names, weights[0].tolist(), strict=True))
        path.write_text(json.dumps(record, allow_nan=False, ensure_ascii=False), encoding="utf-8")
        return [
            f"Scores lack a constant, {self.constant(source):.6g}, which model/linear cannot have; "
            f"rankings do not depend on it."
        ]

    def scores(self, path: Path, parity: Parity) -> dict[str, Floats]:
        """By the plugins' rule: products added in single precision, in the features' order."""
        record = read_json(path, limit=_LARGEST_FILE)
        if not isinstance(record, dict) or set(record) - set(parity.names):
            raise InputError(f"`{path}` must have weights of the parity file's features.")
        total = np.zeros(len(parity.features), dtype=np.float32)
        for place, name in enumerate(parity.names):
            weight = np.float32(number(record.get(name, 0.0)))
            total += weight * parity.features[:, place]
        return {"the plugins' rule": total.astype(np.float64)}
