"""Where a network learns: the device of its parameters, and who computes exposures there."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from saferank.errors import InputError
from saferank.plackett_luce.differentiable import TorchKernels
from saferank.plackett_luce.kernels import COMPILED, ExposureKernels


@dataclass(frozen=True)
class Device:
    """A device of torch's, with the kernels for exposures on it.

    Examples
    --------
    >>> Device().name
    'cpu'
    """

    name: str = "cpu"
    kernels: ExposureKernels = COMPILED


def find_device(name: str | Device) -> Device:
    """The device of a name: compiled kernels on the CPU, torch's everywhere else.

    Parameters
    ----------
    name
        As torch names it: cpu, cuda, cuda:1, mps; or a `Device`, which is returned as it is.

    Returns
    -------
    Device
        One that can be used here.

    Raises
    ------
    InputError
        Where torch has no such device, or has it and cannot use it.

    Examples
    --------
    >>> find_device("cpu") == Device()
    True
    """
    if isinstance(name, Device):
        return name
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError, AttributeError) as error:
        rule = "`device` must be cpu or one that torch can use here, such as cuda"
        raise InputError(f"{rule}; got {name!r} ({_first_line(error)}).") from error
    return Device() if device.type == "cpu" else Device(str(device), TorchKernels(str(device)))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120].rstrip(".")
