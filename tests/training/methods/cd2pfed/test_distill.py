import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from pfl.training.methods.cd2pfed.distill import cyclic_distillation


def scores(seed, batch=4, classes=3, spread=2.0, grad=False):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, classes, generator=generator, dtype=torch.float64) * spread
    return values.requires_grad_(grad)


seeds = st.integers(0, 10_000)


@given(seed=seeds)
def test_it_is_half_of_both_divergences(seed):
    private, shared = scores(seed), scores(seed + 1)
    p, q = private.softmax(1), shared.softmax(1)
    forth = F.kl_div(q.log(), p, reduction="batchmean")
    back = F.kl_div(p.log(), q, reduction="batchmean")
    for detach in (False, True):
        found = cyclic_distillation(private, shared, detach)
        torch.testing.assert_close(found, (forth + back) / 2)


@given(seed=seeds, shift=st.floats(-50, 50))
def test_it_is_symmetric_positive_and_blind_to_a_shift_of_the_scores(seed, shift):
    private, shared = scores(seed), scores(seed + 1)
    value = cyclic_distillation(private, shared)
    assert value > 0
    assert cyclic_distillation(shared, private) == pytest.approx(float(value))
    assert cyclic_distillation(private + shift, shared) == pytest.approx(float(value))
    assert cyclic_distillation(private, private + shift) == pytest.approx(0, abs=1e-12)


@given(seed=seeds)
def test_its_gradient_is_that_of_finite_differences(seed):
    private, shared = scores(seed, grad=True), scores(seed + 1, grad=True)
    assert torch.autograd.gradcheck(cyclic_distillation, (private, shared))


@given(seed=seeds)
def test_detached_teachers_pull_each_part_to_the_other(seed):
    private, shared = scores(seed, grad=True), scores(seed + 1, grad=True)
    cyclic_distillation(private, shared, detach=True).backward()
    # The gradient of KL(p‖softmax z) in z is softmax z − p, halved and averaged here.
    pull = (private.softmax(1) - shared.softmax(1)).detach() / 2 / len(private)
    torch.testing.assert_close(private.grad, pull)
    torch.testing.assert_close(shared.grad, -pull)


def test_extreme_scores_give_a_finite_value_and_gradient():
    private = torch.tensor([[1e4, -1e4], [0.0, 0.0]], requires_grad=True)
    shared = torch.tensor([[-1e4, 1e4], [0.0, 0.0]], requires_grad=True)
    value = cyclic_distillation(private, shared)
    value.backward()
    assert value.isfinite()
    assert private.grad.isfinite().all()
    assert shared.grad.isfinite().all()


def test_bfloat16_scores_are_compared_in_single_precision():
    private, shared = scores(0).bfloat16(), scores(1).bfloat16()
    value = cyclic_distillation(private, shared)
    assert value.dtype == torch.float32
    assert value == pytest.approx(float(cyclic_distillation(private.double(), shared.double())))
