"""ONNX: raw features in, scores out, for lists of any length; optionally rankings, and the guard.

Inputs: `features` (float32, documents x features); `production` (double, one per document) where
the ranker adds to it or the guard needs it; `uniforms` (double in (0, 1), one per document) where
rankings are drawn; `chance` (double in [0, 1), one value) for the guard. Outputs: `scores`
(double); `ranking` (positions of the first K documents, or of all where the list is shorter);
`share` (of the new ranker) and `serves_new`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from saferank._core.flat import Floats
from saferank.errors import InputError, MissingExtraError, require
from saferank.serving.export import onnx_policy
from saferank.serving.export.lightgbm_files import category_codes
from saferank.serving.export.onnx_graph import Graph
from saferank.serving.export.onnx_scores import scores
from saferank.serving.export.parity import Parity
from saferank.serving.export.source import Source
from saferank.serving.export.target import Target

_LARGEST_FILE: Final = 1 << 30
NEAR: Final = 1e-5
"""Keys of a ranking that are nearer may stand in any order: scores are right to less."""
SHARES: Final = 1e-4
"""A share is a ratio of exposures, and may differ by more than the scores do."""


class Onnx(Target):
    """A graph for ONNX Runtime and whoever reads ONNX."""

    def write(self, source: Source, path: Path) -> list[str]:
        """Write the graph."""
        path.write_bytes(model_of(source).SerializeToString())
        codes = category_codes(source)
        if source.guard is not None and source.guard.blind:
            codes.append(
                "What production does is known from the log only: give `production` the order of "
                "the list that it made, for instance minus the rank of each document."
            )
        return codes

    def scores(self, path: Path, parity: Parity) -> dict[str, Floats]:
        """By ONNX Runtime, list by list; rankings and shares are checked on the way."""
        session = _session(path)
        outputs = [_run(session, parity, query) for query in range(parity.offsets.size - 1)]
        return {"ONNX Runtime": np.concatenate(outputs)}


def model_of(source: Source) -> Any:
    """The model of a ranker."""
    graph, ranker = Graph(), source.ranker
    inputs: dict[str, tuple[str, list[Any]]] = {
        "features": ("FLOAT", ["documents", len(source.names)])
    }
    outputs: dict[str, tuple[str, list[Any]]] = {"scores": ("DOUBLE", ["documents"])}
    scored = scores(graph, "features", source)
    shown = source.guard is not None and source.guard.production_kind != "uniform"
    if ranker.adds_production or shown:
        inputs["production"] = ("DOUBLE", ["documents"])
    if ranker.adds_production:
        temperature = graph.constant(ranker.production_temperature)
        scored = graph.op("Add", scored, graph.op("Div", "production", temperature))
    graph.rename(scored, "scores")
    if source.guard is not None:
        if "sampled" in (source.guard.deployed, source.guard.production_deployed):
            inputs["uniforms"] = ("DOUBLE", ["documents"])
        inputs["chance"] = ("DOUBLE", [1])
        outputs |= {"share": ("DOUBLE", [1]), "serves_new": ("BOOL", [1])}
        onnx_policy.guarded(graph, source.guard, _ranks(source))
    elif source.k is not None:
        inputs["uniforms"] = ("DOUBLE", ["documents"])
        onnx_policy.sampled(graph, "scores", source.k)
    if source.k is not None:
        outputs["ranking"] = ("INT64", ["ranks"])
    return graph.model(inputs, outputs)


def _ranks(source: Source) -> int:
    require(source.k is not None, "k", "given with the guard", source.k)
    assert source.k is not None
    return source.k


def _session(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("onnxruntime", "export") from error
    size = path.stat().st_size
    require(size <= _LARGEST_FILE, str(path), f"at most {_LARGEST_FILE} bytes", size)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        # the bytes alone: a file could name others to be read beside it
        return onnxruntime.InferenceSession(
            path.read_bytes(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # whatever its C++ raises
        raise InputError(f"`{path}` must be an ONNX model; {error}") from error


def _run(session: Any, parity: Parity, query: int) -> Floats:
    rows = slice(parity.offsets[query], parity.offsets[query + 1])
    given = {
        "features": parity.features[rows],
        "production": None if parity.production is None else parity.production[rows],
        "uniforms": None if parity.uniform is None else parity.uniform[rows],
        "chance": None if parity.chance is None else parity.chance[[query]],
    }
    wanted = [one.name for one in session.get_inputs()]
    lacking = [name for name in wanted if given.get(name) is None]
    require(not lacking, "the model", "of inputs that the parity file has", lacking)
    names = [one.name for one in session.get_outputs()]
    try:
        values = session.run(names, {name: given[name] for name in wanted})
    except Exception as error:  # whatever its C++ raises
        raise InputError(f"the model does not take the parity file's rows; {error}") from error
    outputs = dict(zip(names, values, strict=True))
    require("scores" in outputs, "the model", "with an output `scores`", names)
    if parity.k is not None:
        _check_ranking(outputs, parity, query)
    return np.asarray(outputs["scores"], dtype=np.float64)


def _check_ranking(outputs: dict[str, Any], parity: Parity, query: int) -> None:
    """The ranking must be the first documents by their keys, in this order."""
    rows = slice(parity.offsets[query], parity.offsets[query + 1])
    values, kind = parity.scores[rows], parity.kinds[0]
    if parity.share is not None and parity.chance is not None:
        share = float(np.asarray(outputs["share"]).reshape(-1)[0])
        near = abs(share - parity.share[query]) <= SHARES
        require(near, "share", f"{parity.share[query]:.9g} in list {query}", share)
        if parity.chance[query] >= parity.share[query]:
            values, kind = _of_production(parity, rows), parity.kinds[1]
    keys = values
    if kind != "sorted":
        assert parity.uniform is not None
        keys = values - np.log(-np.log(parity.uniform[rows]))
    ranking = np.asarray(outputs["ranking"])
    assert parity.k is not None
    length = min(parity.k, keys.size)
    whole = np.unique(ranking).size == ranking.size == length
    require(whole, "ranking", f"{length} different documents in list {query}", ranking.size)
    placed = keys[ranking]
    left = np.delete(keys, ranking)
    slack = NEAR * (1 + np.abs(placed).max(initial=0))
    ordered = bool(np.all(placed[1:] <= placed[:-1] + slack))
    ordered &= left.size == 0 or left.max() <= placed[-1] + slack
    require(ordered, "ranking", f"in the order of its keys in list {query}", ranking.tolist())


def _of_production(parity: Parity, rows: slice) -> Floats:
    if parity.kinds[1] == "uniform" or parity.production is None:
        return np.zeros(rows.stop - rows.start)
    return parity.production[rows] / parity.temperature
