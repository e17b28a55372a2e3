"""A client's samples in memory: every one once a pass, as its view shows them."""

import hypothesis.strategies as st
import torch
from hypothesis import given

from tests.federations import generator, images, problem


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 99))
def test_a_pass_has_every_sample_once(count, batch_size, seed):
    data = images(count)
    batches = list(data.batches(batch_size, generator(seed)))
    assert [len(label) for _, label in batches[:-1]] == [batch_size] * (
        count // batch_size - (count % batch_size == 0)
    )
    seen = torch.cat([pixels for pixels, _ in batches])
    everything = data.view(data.stored)
    key = [tuple(image.flatten().tolist()) for image in seen]
    assert sorted(key) == sorted(tuple(image.flatten().tolist()) for image in everything)


def test_passes_are_shuffled_by_the_generator_alone():
    data = images(30)
    first, again, other = (
        torch.cat([y for _, y in data.batches(7, generator(seed))]) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_in_order_is_in_order():
    data = images(10)
    assert torch.equal(torch.cat([y for _, y in data.in_order(3)]), data.label)
    pixels = torch.cat([x for x, _ in data.in_order(3)])
    assert torch.equal(pixels, data.view(data.stored))


def test_no_images_make_no_batch():
    assert list(images(0).batches(4, generator())) == []


def test_all_data_of_a_test_are_on_the_device():
    of = problem(external=3).tests
    moved = of.to(torch.device("meta"))
    for data in (*moved.validation, moved.pooled, moved.external):
        tensors = (data.stored, data.label, data.view.mean, data.view.std)
        assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert problem().tests.to(torch.device("meta")).external is None
