"""A graph of ONNX operators, put together one call at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from saferank.errors import MissingExtraError

OPSET: Final = 17
ML_OPSET: Final = 3
IR: Final = 8
"""Read by every ONNX Runtime since 2022."""


def onnx() -> Any:
    """The ONNX package, or how to install it."""
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("onnx", "export") from error
    return onnx


@dataclass
class Graph:
    """Nodes and constants; every method that adds one returns the name of its value."""

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    prefix: str = ""

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output."""
        return self.ops(kind, *inputs, outputs=1, domain=domain, **attributes)[0]

    def ops(
        self, kind: str, *inputs: str, outputs: int, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node with several outputs."""
        number = len(self.nodes)
        names = [f"{self.prefix}{kind}_{number}_{place}" for place in range(outputs)]
        node = onnx().helper.make_node(kind, list(inputs), names, domain=domain, **attributes)
        self.nodes.append(node)
        return names

    def constant(self, values: npt.ArrayLike, dtype: Any = np.float64) -> str:
        """Add a constant."""
        name = f"{self.prefix}constant_{len(self.constants)}"
        array = np.asarray(values, dtype=dtype)
        self.constants.append(onnx().numpy_helper.from_array(array, name))
        return name

    def cast(self, value: str, to: str) -> str:
        """The value in another type: FLOAT, DOUBLE, INT64 or BOOL."""
        return self.op("Cast", value, to=getattr(onnx().TensorProto, to))

    def count(self, value: str) -> str:
        """Number of entries along the first axis, as a vector of one."""
        return self.op("Shape", value, start=0, end=1)

    def rename(self, value: str, name: str) -> None:
        """Give a value a name of its own."""
        self.nodes.append(onnx().helper.make_node("Identity", [value], [name]))

    def model(
        self, inputs: dict[str, tuple[str, list[Any]]], outputs: dict[str, tuple[str, list[Any]]]
    ) -> Any:
        """The model: inputs and outputs are (type, shape) by name."""
        package = onnx()
        helper, types = package.helper, package.TensorProto

        def described(values: dict[str, tuple[str, list[Any]]]) -> list[Any]:
            return [
                helper.make_tensor_value_info(name, getattr(types, kind), shape)
                for name, (kind, shape) in values.items()
            ]

        graph = helper.make_graph(
            self.nodes, "ranker", described(inputs), described(outputs), self.constants
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        made = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR, producer_name="saferank"
        )
        package.checker.check_model(made, full_check=True)
        return made
