"""What goes over the wire comes back as it was, and what makes no sense is refused."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

pytest.importorskip("flwr")

from flwr.app import Message, RecordDict

from pfl.errors import InputError
from pfl.fedhip.moments import Moments, moments
from pfl.flower.messages.moments import array_record, arrays_of, moments_of, moments_record
from pfl.flower.messages.tensors import check_tensors, tensor_record, tensors_of
from pfl.flower.server.traffic import array_bytes
from tests.flower.grid import LocalGrid, over_the_wire

STEP = 2.0**-8


@st.composite
def samples(draw):
    """Moments of a few samples, small or extreme."""
    width, classes, n = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(0, 8))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    largest = draw(st.sampled_from([1, 100, 32767]))
    labels = np.sort(rng.integers(classes, size=n))
    rows = rng.integers(-largest, largest + 1, (n, width)).astype(np.int16)
    return moments(rows, labels, classes, STEP)


@given(samples())
def test_moments_cross_the_wire(sent):
    LocalGrid({}, {})
    message = Message(RecordDict({"sent": moments_record(sent)}), 1, "train.moments")
    arrived = over_the_wire(message).content
    zero = Moments.zero(sent.features, len(sent.count), STEP)
    assert moments_of(arrived.array_records["sent"], zero) == sent


def test_few_bits_travel_in_few_bytes():
    sent = moments(np.ones((3, 4), np.int16), np.zeros(3, int), 2, STEP)
    record = moments_record(sent)
    assert {name: array.dtype for name, array in record.items() if name != "class"} == {
        "gram": "int8", "count": "int8", "cross": "int8"
    }  # fmt: skip
    assert record["cross"].shape == (1, 4)
    header = 128
    assert array_bytes(RecordDict({"sent": record})) == 4 * header + 10 + 4 + 1 + 4


def test_sums_beyond_32_bits_keep_every_one():
    zero = Moments.zero(1, 1, STEP)
    large = Moments(np.array([2**52 + 1]), np.array([[2**36 + 5]]), np.array([2**23]), STEP)
    assert moments_of(moments_record(large), zero) == large


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a | {"gram": a["gram"][1:]}, r"gram has the shape \(5,\), where \(6,\)"),
        (lambda a: a | {"gram": a["gram"].astype(float)}, "float64 numbers as its gram"),
        (lambda a: {n: v for n, v in a.items() if n != "cross"}, "nothing as its cross"),
        (lambda a: a | {"class": np.array([0, 9], np.int32)}, "which no client can have"),
        (lambda a: a | {"class": np.array([1, 0], np.int32)}, "which no client can have"),
        (lambda a: a | {"class": np.array([[0, 1]], np.int32)}, "which no client can have"),
        (lambda a: a | {"count": -a["count"]}, "number of samples is beyond"),
        (lambda a: a | {"cross": a["cross"] * 0 + 127, "count": a["count"] * 0}, "is beyond"),
        (lambda a: a | {"gram-high": np.ones(2, np.int8)}, "different shapes"),
        (lambda a: a | {"gram-high": np.full(6, 127, np.int32)}, "Gram matrix is beyond"),
    ],
)
def test_moments_that_make_no_sense_are_refused(change, message):
    labels = np.array([0, 0, 1])
    sent = moments(np.arange(9, dtype=np.int16).reshape(3, 3), labels, 2, STEP)
    arrays = change(arrays_of(moments_record(sent)))
    with pytest.raises(InputError, match=message):
        moments_of(array_record(arrays), Moments.zero(3, 2, STEP))


def test_tensors_cross_the_wire():
    state = {"a": torch.randn(3, 2), "count": torch.tensor(7), "none": torch.zeros(0)}
    back = tensors_of(tensor_record(state))
    assert back.keys() == state.keys()
    assert all(torch.equal(back[n], v) and back[n].dtype == v.dtype for n, v in state.items())


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({}, r"other entries than are shared \(a\)"),
        ({"a": torch.zeros(3), "b": torch.zeros(1)}, r"\(b\)"),
        ({"a": torch.zeros(4)}, r"torch.float32 \(4,\), where torch.float32 \(3,\)"),
        ({"a": torch.zeros(3, dtype=torch.int64)}, r"torch.int64 \(3,\), where"),
        ({"a": torch.tensor([0.0, torch.inf, 0.0])}, "not finite"),
    ],
)
def test_uploads_that_make_no_sense_are_refused(sent, message):
    with pytest.raises(InputError, match=message):
        check_tensors(sent, {"a": (3, torch.float32)})
