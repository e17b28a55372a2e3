"""Where networks are trained."""

import pytest
import torch

from pfl.devices import training_device
from pfl.errors import InputError


@pytest.mark.parametrize("name", ["cpu", "auto"])
def test_without_a_gpu_it_is_the_cpu(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert training_device(name) == torch.device("cpu")


def test_a_gpu_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=r"rounds\.device is cuda"):
        training_device("cuda")


def test_on_a_gpu_deterministic_algorithms_are_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda *a, **k: asked.append((a, k)))
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    assert training_device("auto") == training_device("cuda") == torch.device("cuda")
    assert asked[0] == ((True,), {"warn_only": True})
