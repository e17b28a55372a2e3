import logging

import pytest

import pfl.progress
from pfl.progress import progress


def test_every_item_passes_once_in_order():
    assert list(progress(iter("abc"), 3, "items", "work")) == ["a", "b", "c"]


def test_away_from_a_terminal_lines_carry_count_rate_and_rest(caplog, monkeypatch):
    monkeypatch.setattr(pfl.progress, "LINE_SECONDS", 0.0)
    with caplog.at_level(logging.INFO, "pfl.progress"):
        list(progress(range(4), 40, "img", "extract", initial=5, step=10))
    assert any("15/40" in line and "img/s" in line for line in caplog.messages)
    assert not any("\r" in line or "\n" in line for line in caplog.messages)


def test_lines_are_rare(caplog):
    with caplog.at_level(logging.INFO, "pfl.progress"):
        list(progress(range(10_000), 10_000, "img", "extract"))
    assert len(caplog.messages) <= 1


def test_a_failure_in_the_loop_is_not_swallowed():
    def failing():
        yield 1
        raise RuntimeError("worker died")

    with pytest.raises(RuntimeError, match="worker died"):
        list(progress(failing(), 2, "img", "extract"))
