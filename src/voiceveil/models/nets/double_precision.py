"""Double precision where a device has none."""

from __future__ import annotations

from torch import Tensor

__all__ = ["as_float64"]

#: Kinds of devices without double precision.
SINGLE_PRECISION_DEVICES = frozenset({"mps"})


def as_float64(x: Tensor) -> Tensor:
    """Return a tensor in double precision: on its device, or on the processor if the device has none."""
    return (x.cpu() if x.device.type in SINGLE_PRECISION_DEVICES else x).double()
