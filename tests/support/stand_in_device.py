"""A device of torch that stands for a graphics card: it computes on the processor, and is as strict as a card.

Its name is that of a kind of device that torch knows but has no code for here, ``lazy``.

A tensor on it wraps a tensor of the processor. As on a card, an operation on tensors of both devices is an error, and
so is ``.numpy()`` without ``.cpu()`` before. What runs where is counted, so that a test can show that no network
computes on the processor. With ``float64=False`` it has no double precision, like Apple's ``mps``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from voiceveil.models.nets import double_precision
from voiceveil.run import device as devices

NAME = "lazy"

#: Operations in which nearly all the time of a network goes.
HEAVY = {
    "_convolution", "_fft_c2r", "_fft_r2c", "addmm", "baddbmm", "bmm", "conv1d", "conv2d", "conv_transpose1d",
    "convolution", "convolution_backward", "einsum", "fft_irfft", "fft_rfft", "gru", "linear", "lstm", "matmul", "mm",
    "scaled_dot_product_attention", "stft",
}  # fmt: skip
#: Operations that take tensors of both devices on a card, too: copies, and indices of the processor.
MIXED = {"copy_", "_to_copy", "to", "index", "index_put_", "_index_put_impl_"}


class StandInTensor(torch.Tensor):
    """A tensor on the device; ``wrapped`` is the tensor of the processor."""

    wrapped: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> StandInTensor:
        """Wrap a tensor."""
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
        )
        tensor.wrapped = inner
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Run an operation outside of any test: models keep their tensors for later."""
        return StandInMode().__torch_dispatch__(func, types, args, kwargs)

    def tolist(self) -> Any:
        """Return the values, as a card's tensor does."""
        return self.wrapped.tolist()


class StandInMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs every operation, on the device where its tensors are."""

    def __init__(self, *, float64: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.float64 = float64
        self.on_device: Counter[str] = Counter()
        self.on_processor: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation."""
        name = func.overloadpacket.__name__
        if name == "_has_compatible_shallow_copy_type":  # of a parameter that moves to another device
            return False
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        here = [x for x in tensors if isinstance(x, StandInTensor)]
        elsewhere = [x for x in tensors if not isinstance(x, StandInTensor) and x.dim() > 0]
        if here and elsewhere and name not in MIXED:
            raise RuntimeError(f"{name}: expected all tensors to be on the same device, but found {NAME} and cpu")
        wraps = self._makes_stand_in(name, args, kwargs, bool(here))
        unwrapped, options = tree_map(_on_processor, (args, kwargs or {}))
        (self.on_device if wraps else self.on_processor)[name] += 1
        result = func(*unwrapped, **options)
        return tree_map(self._wrapped, result) if wraps else result

    def _makes_stand_in(self, name: str, args: Any, kwargs: Any, here: bool) -> bool:
        """Return whether the result of an operation is on the device."""
        named = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.device)]
        if named:
            return named[0].type == NAME
        if name == "to" and isinstance(args[1], torch.Tensor):  # x.to(other)
            return isinstance(args[1], StandInTensor)
        return isinstance(args[0], StandInTensor) if name == "copy_" else here

    def _wrapped(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if not self.float64 and value.dtype in (torch.float64, torch.complex128):
            raise TypeError("the device has no float64")
        with torch.inference_mode(False):  # views of parameters are no inference tensors
            return StandInTensor(value)

    def check(self) -> None:
        """Fail unless all that takes time ran on the device, and something did."""
        heavy = {name: count for name, count in self.on_processor.items() if name in HEAVY}
        assert not heavy, f"on the processor: {heavy}"
        assert sum(self.on_device[name] for name in HEAVY), f"nothing on the device, but: {self.on_device}"


def _on_processor(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.wrapped if isinstance(value, StandInTensor) else value


class _Functions(TorchFunctionMode):
    """Replaces functions that torch carries out where no operation shows it.

    Lists become tensors on the processor, which are copied. Recurrent layers whose batches come first transpose their
    output in place.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch."""
        options = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and options.get("device") is not None:
            return func(*args, **{**options, "device": "cpu"}).to(options["device"])
        if func is torch.Tensor.__getitem__ and isinstance(args[1], list):
            return func(args[0], torch.tensor(args[1]))
        if func.__name__ in ("gru", "lstm") and args[-1] is True:  # batch_first
            output, *state = func(args[0].transpose(0, 1), *args[1:-1], False)
            return (output.transpose(0, 1), *state)
        return func(*args, **options)


@contextmanager
def stand_in(*, float64: bool = True) -> Iterator[StandInMode]:
    """Run the networks of this block on the stand-in, and count what runs where."""
    with (
        patch.object(devices, "available_devices", lambda: ("cpu", NAME)),
        patch.object(double_precision, "SINGLE_PRECISION_DEVICES", frozenset() if float64 else frozenset({NAME})),
        patch("torch.optim.optimizer._get_fused_kernels_supported_devices", lambda: ["cpu", NAME]),
        StandInMode(float64=float64) as mode,
        _Functions(),
        devices.use_device(NAME),
    ):
        yield mode
