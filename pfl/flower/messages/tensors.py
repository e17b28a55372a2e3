"""Networks as Flower's records: named tensors, and the check of what a client sent."""

from collections.abc import Mapping

import torch
from flwr.app import ArrayRecord
from jaxtyping import Shaped
from torch import Tensor

from pfl.errors import InputError
from pfl.flower.messages.moments import ADVICE, array_record, arrays_of


def tensor_record(tensors: Mapping[str, Shaped[Tensor, "..."]]) -> ArrayRecord:
    """Tensors by name, as they are."""
    return array_record({name: value.cpu().numpy() for name, value in tensors.items()})


def tensors_of(record: ArrayRecord) -> dict[str, Tensor]:
    """Inverse of :func:`tensor_record`."""
    return {name: torch.from_numpy(value) for name, value in arrays_of(record).items()}


def check_tensors(
    sent: Mapping[str, Tensor], expected: Mapping[str, tuple[int, torch.dtype]]
) -> None:
    """Refuse an upload that does not have exactly these entries, lengths, types, finite numbers.

    Raises:
        InputError: it has not.
    """
    if sent.keys() != expected.keys():
        different = ", ".join(sorted(sent.keys() ^ expected.keys()))
        raise InputError(f"it sent other entries than are shared ({different}). {ADVICE}.")
    for name, values in sent.items():
        length, dtype = expected[name]
        if values.shape != (length,) or values.dtype != dtype:
            raise InputError(
                f"its '{name}' is {values.dtype} {tuple(values.shape)}, where {dtype} "
                f"{(length,)} is needed. {ADVICE}."
            )
        if not values.isfinite().all():
            raise InputError(f"its '{name}' has numbers that are not finite. {ADVICE}.")
