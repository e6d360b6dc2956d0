"""Eight doubles at once inside compiled kernels, whatever vectors the processor has.

Numba leaves vectorising to a compiler that must prove first that arrays do not overlap. The loops
here run over eight nodes of a quadrature side by side, so they say so: a `Lanes` value is a vector
of eight doubles, with `+ - *` and the few functions below. Only kernels can hold one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numba.core.cgutils
import numba.core.typing.templates
import numba.extending
from llvmlite import ir
from numba.core import types
from numba.core.datamodel.models import PrimitiveModel
from numba.core.typing.templates import AbstractTemplate

from saferank._core.flat import Floats
from saferank._core.kernels import kernel

# Numba's tools for new types carry no annotations.
_cgutils: Any = numba.core.cgutils
_extending: Any = numba.extending
_templates: Any = numba.core.typing.templates
_primitive: Any = PrimitiveModel.__init__

WIDTH = 8
_DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
_BITS = ir.VectorType(ir.IntType(64), WIDTH)


class Lanes(types.Type):
    """The type of eight doubles in a kernel."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


_LANES = Lanes()


@_extending.register_model(Lanes)
class _LanesModel(PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        _primitive(self, manager, kind, _DOUBLES)


def _intrinsic(typing: Callable[..., Any]) -> Any:
    """A function of kernels that gives its own instructions."""
    return _extending.intrinsic(typing)


def _binary(symbol: Callable[[Any, Any], Any], instruction: str) -> None:
    class _Rule(AbstractTemplate):
        def generic(self, args: Any, _keywords: Any) -> Any:
            fits = args == (_LANES, _LANES)
            return _templates.signature(_LANES, *args) if fits else None

    def lower(_context: Any, builder: Any, _kind: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)

    _templates.infer_global(symbol)(_Rule)
    _extending.lower_builtin(symbol, Lanes, Lanes)(lower)


_binary(operator.add, "fadd")
_binary(operator.sub, "fsub")
_binary(operator.mul, "fmul")


def _constant(vector: ir.VectorType, value: Any) -> ir.Constant:
    return ir.Constant(vector, [value] * WIDTH)


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    struct = context.make_array(kind)(context, builder, array)
    start = builder.gep(struct.data, [index])
    return builder.bitcast(start, _DOUBLES.as_pointer())


@_intrinsic
def load(_typing: Any, array: Any, _index: Any) -> Any:
    """Eight doubles of a flat contiguous array from `index` on."""

    def build(context: Any, builder: Any, kind: Any, args: Any) -> Any:
        pointer = _address(context, builder, kind.args[0], *args)
        return builder.load(pointer, align=8)

    return _LANES(array, types.intp), build


@_intrinsic
def store(_typing: Any, array: Any, _index: Any, _value: Any) -> Any:
    """Write eight doubles into a flat contiguous array from `index` on."""

    def build(context: Any, builder: Any, kind: Any, args: Any) -> Any:
        pointer = _address(context, builder, kind.args[0], *args[:2])
        builder.store(args[2], pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _LANES), build


@_intrinsic
def fill(_typing: Any, _value: Any) -> Any:
    """The same double eight times."""

    def build(_context: Any, builder: Any, _kind: Any, args: Any) -> Any:
        first = builder.insert_element(
            ir.Constant(_DOUBLES, ir.Undefined), args[0], ir.Constant(ir.IntType(32), 0)
        )
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        return builder.shuffle_vector(first, first, zeros)

    return _LANES(types.float64), build


@_intrinsic
def multiply_add(_typing: Any, _a: Any, _b: Any, _c: Any) -> Any:
    """a * b + c, in one step where the processor can."""

    def build(_context: Any, builder: Any, _kind: Any, args: Any) -> Any:
        form = ir.FunctionType(_DOUBLES, [_DOUBLES] * 3)
        name = f"llvm.fmuladd.v{WIDTH}f64"
        return builder.call(_cgutils.get_or_insert_function(builder.module, form, name), args)

    return _LANES(_LANES, _LANES, _LANES), build


@_intrinsic
def total(_typing: Any, _value: Any) -> Any:
    """Sum of the eight, always in the same order: halves, quarters, eighths."""

    def build(_context: Any, builder: Any, _kind: Any, args: Any) -> Any:
        value, count = args[0], WIDTH
        while count > 1:
            count //= 2
            half = ir.VectorType(ir.IntType(32), count)
            low = builder.shuffle_vector(value, value, ir.Constant(half, list(range(count))))
            high = builder.shuffle_vector(
                value, value, ir.Constant(half, list(range(count, 2 * count)))
            )
            value = builder.fadd(low, high)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return types.float64(_LANES), build


@_intrinsic
def if_less(_typing: Any, _value: Any, _bound: Any, _then: Any, _otherwise: Any) -> Any:
    """Where value < bound `then`, elsewhere `otherwise`."""

    def build(_context: Any, builder: Any, _kind: Any, args: Any) -> Any:
        value, bound, then, otherwise = args
        return builder.select(builder.fcmp_ordered("<", value, bound), then, otherwise)

    return _LANES(_LANES, _LANES, _LANES, _LANES), build


@_intrinsic
def _power_of_half(_typing: Any, _shifted: Any) -> Any:
    """2^-n, where `shifted` is n + 1.5 * 2^52: the low bits of that double are n."""

    def build(_context: Any, builder: Any, _kind: Any, args: Any) -> Any:
        exponent = builder.shl(builder.bitcast(args[0], _BITS), _constant(_BITS, 52))
        return builder.bitcast(builder.sub(_constant(_BITS, 1023 << 52), exponent), _DOUBLES)

    return _LANES(_LANES), build


@kernel
def between(low: float, value: Any, high: float) -> Any:
    """Values cut to low..high."""
    value = if_less(value, fill(low), fill(low), value)
    return if_less(value, fill(high), value, fill(high))


_MAGIC = 1.5 * 2.0**52
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # 33 bits, so that its product with a small whole number is exact
_LN2_LOW = 1.9082149292705877e-10


@kernel
def decay(x: Any) -> Any:
    """exp(-x) and 1 - exp(-x), both to the last bits, for |x| up to 700.

    x = n ln 2 + r with |r| <= ln(2)/2; exp(-r) - 1 by its series, exp(-x) = 2^-n exp(-r).
    """
    shifted = multiply_add(x, fill(_LOG2_E), fill(_MAGIC))
    n = shifted - fill(_MAGIC)
    r = multiply_add(n, fill(-_LN2_HIGH), x)
    r = multiply_add(n, fill(-_LN2_LOW), r)
    series = fill(1 / 479001600)
    series = multiply_add(series, r, fill(-1 / 39916800))
    series = multiply_add(series, r, fill(1 / 3628800))
    series = multiply_add(series, r, fill(-1 / 362880))
    series = multiply_add(series, r, fill(1 / 40320))
    series = multiply_add(series, r, fill(-1 / 5040))
    series = multiply_add(series, r, fill(1 / 720))
    series = multiply_add(series, r, fill(-1 / 120))
    series = multiply_add(series, r, fill(1 / 24))
    series = multiply_add(series, r, fill(-1 / 6))
    series = multiply_add(series, r, fill(1 / 2))
    series = multiply_add(series, r, fill(-1.0))
    scale = _power_of_half(shifted)
    change = scale * series * r
    return scale + change, (fill(1.0) - scale) - change


@kernel
def decays(values: Floats, kept: Floats, gone: Floats) -> None:
    """exp(-x) and 1 - exp(-x) of flat arrays whose length is a multiple of eight."""
    for start in range(0, values.size, WIDTH):
        q, p = decay(load(values, start))
        store(kept, start, q)
        store(gone, start, p)
