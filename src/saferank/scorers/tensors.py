"""Tensors to a safetensors file, and from one that is not to be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from saferank._core.flat import require_each
from saferank.errors import InputError, require


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a file of safetensors; a full disk is an `OSError`, as for every other file.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> path = Path(tempfile.mkdtemp()) / "one.safetensors"
    >>> write_tensors({"bias": torch.ones(2)}, path)
    >>> read_tensors(path, {"bias": torch.empty(2)})
    {'bias': tensor([1., 1.])}
    """
    path.write_bytes(save(dict(tensors)))


def read_tensors(path: Path, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file, if they have the names, shapes and types of those expected.

    Shapes are compared with the file's header before anything of their size is allocated;
    `expected` may be on the `meta` device, where a tensor takes no memory.

    Parameters
    ----------
    path
        A regular file: anything else (a pipe, a device, a folder) is refused unopened.
    expected
        Tensors whose values do not matter.

    Raises
    ------
    InputError
        The file is damaged, or holds other tensors, or a number that is not finite.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> path = Path(tempfile.mkdtemp()) / "one.safetensors"
    >>> write_tensors({"bias": torch.ones(2)}, path)
    >>> read_tensors(path, {"bias": torch.empty(2, device="meta")})
    {'bias': tensor([1., 1.])}
    >>> read_tensors(path, {"bias": torch.empty(10**12, device="meta")})
    Traceback (most recent call last):
    saferank.errors.InputError: `bias` must be of shape (1000000000000,) in ...; got (2,).
    """
    require(path.is_file(), "parameters", "a file of safetensors", str(path))
    try:
        with safe_open(path, framework="pt") as file:
            names = set(file.keys())
            require(names == set(expected), str(path), "of this scorer's parameters", _few(names))
            for name, tensor in expected.items():
                shape, wanted = tuple(file.get_slice(name).get_shape()), tuple(tensor.shape)
                require(shape == wanted, name, f"of shape {wanted} in {path}", shape)
            tensors = {name: file.get_tensor(name) for name in expected}
    except (SafetensorError, OSError) as error:
        raise InputError(f"`{path}` must be a file of safetensors; {error}.") from error
    for name, tensor in tensors.items():
        kind = expected[name].dtype
        require(tensor.dtype == kind, name, f"of type {kind} in {path}", tensor.dtype)
        if tensor.is_floating_point():
            values = tensor.double().numpy()
            require_each(np.isfinite(values), name, f"finite in {path}", values)
    return tensors


def _few(names: set[str]) -> str:
    return ", ".join(name[:20] for name in sorted(names)[:5])
