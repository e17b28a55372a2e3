"""Streams of random numbers are functions of their names."""

import itertools

import torch

from pfl.runtime.rng import stream


def numbers(*name):
    return tuple(torch.randint(0, 2**40, (4,), generator=stream(*name)).tolist())


def test_a_name_gives_the_same_numbers_and_another_name_others():
    names = [
        (seed, purpose, *rest)
        for seed in (0, 1)
        for purpose in ("train", "personal")
        for rest in [(), (0,), *itertools.product((0, 1, 2), repeat=2)]
    ]
    assert [numbers(*name) for name in names] == [numbers(*name) for name in names]
    assert len({numbers(*name) for name in names}) == len(names)


def test_the_global_generator_is_left_alone():
    before = torch.random.get_rng_state()
    numbers(0, "train", 1, 2)
    assert torch.equal(torch.random.get_rng_state(), before)
