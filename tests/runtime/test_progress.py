import contextlib
import logging
import os
import pty
import re
import subprocess
import sys

import pytest

import pfl.runtime.progress
from pfl.runtime.progress import progress
from tests.workspace import ROOT


def test_every_item_passes_once_in_order():
    assert list(progress(iter("abc"), 3, "items", "work")) == ["a", "b", "c"]


def test_away_from_a_terminal_lines_carry_count_rate_and_rest(caplog, monkeypatch):
    monkeypatch.setattr(pfl.runtime.progress, "LINE_SECONDS", 0.0)
    with caplog.at_level(logging.INFO, "pfl.runtime.progress"):
        list(progress(range(4), 40, "img", "extract", initial=5, step=10))
    assert any("15/40" in line and "img/s" in line for line in caplog.messages)
    assert not any("\r" in line or "\n" in line for line in caplog.messages)


def test_lines_are_rare(caplog):
    with caplog.at_level(logging.INFO, "pfl.runtime.progress"):
        list(progress(range(10_000), 10_000, "img", "extract"))
    assert len(caplog.messages) <= 1


def test_a_failure_in_the_loop_is_not_swallowed():
    def failing():
        yield 1
        raise RuntimeError("worker died")

    with pytest.raises(RuntimeError, match="worker died"):
        list(progress(failing(), 2, "img", "extract"))


def test_on_a_terminal_a_bar_is_drawn_and_goes_away():
    """In a pseudo-terminal: the label and the count appear, and the last line is empty again."""
    code = (
        "import logging, time\nfrom pfl.runtime.progress import progress\n"
        "logging.basicConfig(level=logging.{level})\n"
        "for _ in progress(range(4), 40, 'img', 'extract', step=10):\n    time.sleep(0.15)\n"
    )
    shown = in_terminal(code.format(level="INFO"))
    assert "extract" in shown
    assert re.search(r"[23]0/40", shown)
    assert "img/s" in shown
    assert in_terminal(code.format(level="WARNING")) == ""


def in_terminal(code):
    """What a Python program shows on a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}
    subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, stderr=theirs, check=True
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed: all was read
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    return shown.decode()
