"""What FedHiP's clients send and get, as Flower's records, and the checks of what came.

Integers travel in the smallest type that holds them all, as in ``uploads.h5``; of a client's class
sums only the classes that it has. Whoever receives checks types, shapes and ranges: a message that
arrived is not yet one that makes sense.
"""

from collections.abc import Mapping

import numpy as np
from flwr.app import Array, ArrayRecord
from jaxtyping import Int64, Shaped

from pfl.data.features.fixed_point import LIMIT
from pfl.errors import InputError
from pfl.fedhip.moments import Moments
from pfl.fedhip.uploads import packed, widened
from pfl.ridge.linalg import triangle_size

ADVICE = "Its program or its data differ from the others'; have its site checked"


def array_record(arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> ArrayRecord:
    """Arrays by name, as they are."""
    return ArrayRecord({name: Array(a) for name, a in arrays.items()})


def arrays_of(record: ArrayRecord) -> dict[str, np.ndarray]:
    """Inverse of :func:`array_record`."""
    return {name: array.numpy() for name, array in record.items()}


def moments_record(sent: Moments) -> ArrayRecord:
    """Moments as integers in few bytes: packed Gram triangle, and sums of the classes present."""
    return array_record(packed(sent))


def moments_of(record: ArrayRecord, zero: Moments) -> Moments:
    """Inverse of :func:`moments_record`, for moments of the shape and step of ``zero``.

    Raises:
        InputError: they are no integers, of another shape, or such as no samples can have.
    """
    arrays = arrays_of(record)
    present = _integers(arrays, "class")
    bounded = np.append(present, len(zero.count)) if present.ndim == 1 else present
    if present.ndim != 1 or (np.diff(bounded, prepend=-1) <= 0).any():
        raise InputError(f"its classes are {present.tolist()}, which no client can have. {ADVICE}.")
    shapes = {
        "gram": (triangle_size(zero.features),),
        "count": (len(present),),
        "cross": (len(present), zero.features),
    }
    sums = {name: _integers(arrays, name) for name in shapes}
    for name, shape in shapes.items():
        if sums[name].shape != shape:
            raise InputError(
                f"its {name} has the shape {sums[name].shape}, where {shape} is needed. {ADVICE}."
            )
    cross, count = np.zeros_like(zero.cross), np.zeros_like(zero.count)
    cross[present], count[present] = sums["cross"], sums["count"]
    moments = Moments(sums["gram"], cross, count, zero.step)
    check_range(moments)
    return moments


def _integers(arrays: Mapping[str, np.ndarray], name: str) -> Int64[np.ndarray, "..."]:
    """The integers under this name."""
    parts = [arrays[part] for part in (name, f"{name}-high") if part in arrays]
    if not parts or any(part.dtype.kind not in "iu" for part in parts):
        what = f"{parts[0].dtype} numbers" if parts else "nothing"
        raise InputError(f"it sent {what} as its {name}, where integers are needed. {ADVICE}.")
    if len({part.shape for part in parts}) > 1:
        raise InputError(f"the two parts of its {name} have different shapes. {ADVICE}.")
    return widened(parts[0], parts[1] if len(parts) > 1 else None)


def check_range(sent: Moments) -> None:
    """Refuse sums beyond what so many 16-bit numbers can have: |Σq| ≤ n·max, |Σq²| ≤ n·max².

    Raises:
        InputError: they are.
    """
    bounds = (
        ("number of samples", sent.count, 2**31),
        ("sum of features", np.abs(sent.cross), LIMIT * sent.count[:, None]),
        ("Gram matrix", np.abs(sent.gram), LIMIT**2 * sent.samples),
    )
    for name, values, most in bounds:
        if (values < 0).any() or (values > most).any():
            raise InputError(f"its {name} is beyond what its samples can give. {ADVICE}.")
