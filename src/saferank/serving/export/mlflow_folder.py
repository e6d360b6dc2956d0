"""An MLflow model: a folder with the ONNX graph, a signature, and MLflow's own loader of ONNX.

MLflow writes nothing here and is needed only where the model is loaded; saferank is not needed
there at all.
"""

from __future__ import annotations

import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from saferank._core.flat import Floats
from saferank._core.marks import marked_record
from saferank.serving.export.onnx_target import Onnx
from saferank.serving.export.parity import Parity
from saferank.serving.export.source import Source
from saferank.serving.export.target import Target

MODEL: Final = "model.onnx"
FILES: Final = ("MLmodel", MODEL, "requirements.txt", "python_env.yaml")
_KINDS: Final = {1: "float32", 11: "float64", 7: "int64", 9: "bool"}
"""Element types of ONNX."""


class MlflowFolder(Target):
    """A folder that `mlflow.pyfunc.load_model` reads."""

    is_folder = True

    def write(self, source: Source, path: Path) -> list[str]:
        """Write the folder's files; the documents of one call are one list."""
        notes = Onnx().write(source, path / MODEL)
        (path / "MLmodel").write_text(_described(path / MODEL), encoding="utf-8")
        needs = "".join(f"{name}=={metadata.version(name)}\n" for name in ("onnx", "onnxruntime"))
        (path / "requirements.txt").write_text(f"mlflow-skinny\n{needs}", encoding="utf-8")
        environment = {
            "python": platform.python_version(), "build_dependencies": ["pip"],
            "dependencies": ["-r requirements.txt"],
        }  # fmt: skip
        (path / "python_env.yaml").write_text(json.dumps(environment) + "\n", encoding="utf-8")
        return notes

    def scores(self, path: Path, parity: Parity) -> dict[str, Floats]:
        """By ONNX Runtime, from the folder's graph."""
        return Onnx().scores(path / MODEL, parity)


def _described(path: Path) -> str:
    """The MLmodel file: JSON, which is YAML, too."""
    import onnx

    graph = onnx.load_model_from_string(path.read_bytes()).graph
    record = {
        "flavors": {
            "onnx": {
                "data": MODEL, "onnx_version": onnx.__version__,
                "providers": ["CPUExecutionProvider"],
            },
            "python_function": {
                "loader_module": "mlflow.onnx", "data": MODEL,
                "python_version": platform.python_version(),
                "env": {"virtualenv": "python_env.yaml"},
            },
        },
        "signature": {
            "inputs": json.dumps([_tensor(one) for one in graph.input]),
            "outputs": json.dumps([_tensor(one) for one in graph.output]),
        },
    }  # fmt: skip
    return json.dumps(marked_record(record, "MLflow model"), indent=2) + "\n"


def _tensor(value: Any) -> dict[str, Any]:
    tensor = value.type.tensor_type
    shape = [one.dim_value if one.HasField("dim_value") else -1 for one in tensor.shape.dim]
    spec = {"dtype": _KINDS[tensor.elem_type], "shape": shape}
    return {"name": value.name, "type": "tensor", "tensor-spec": spec}
