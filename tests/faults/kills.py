"""Kill `dvc repro` and its stage at random moments, rerun, and compare with an undisturbed run.

    python -m tests.faults.kills [--kills 100] [--seed 0]

Every run is started in a session of its own. After a random time a signal (SIGKILL, SIGTERM, or
SIGINT as Ctrl-C sends it) goes to DVC alone, to its stage alone or to both. Then `dvc repro` runs
again, at once: a stage that was left behind must not collide with it. Whenever a run gets to its
end, all results must equal the undisturbed ones to the byte; then all is deleted and begun anew.
"""

import argparse
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.workspace import ENVIRONMENT, change, contents, copy_project

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
TARGETS = ("both", "dvc", "stage")
# What a run may say, in place of an end, while another one is still at work.
REFUSALS = (
    "is at work in this checkout",
    "Unable to acquire lock",
    "is busy, it is being blocked by",
)
# Enough work in extract and in train that most signals hit the middle of it.
SLOW = {
    "extract.image-size": 64,
    "extract.batch-size": 4,
    "rounds.rounds": 6,
    "rounds.batch-size": 16,
    "compare.methods": ["fedavg"],
}
STAGES = ("extract", "train")
ERRORS = "errors.txt"
MADE = ("data/*.h5", "runs", "reports", ".scratch", "dvc.lock", ".dvc/cache", ".dvc/tmp")


@dataclass
class Tally:
    """What happened."""

    signals: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    compared: int = 0

    @property
    def kills(self) -> int:
        """Signals that met a running process."""
        return sum(self.signals.values())


def prepared(folder: Path) -> float:
    """Make a project whose extract and train take a while; returns the seconds a run takes."""
    copy_project(folder)
    change(folder, SLOW)
    path = folder / "pfl" / "backbones" / "extraction" / "resume.py"
    text = path.read_text(encoding="utf-8")
    assert "BLOCK_SECONDS = 10.0" in text
    path.write_text(text.replace("BLOCK_SECONDS = 10.0", "BLOCK_SECONDS = 0.2"), encoding="utf-8")
    start = time.monotonic()
    done = _start(folder)
    assert done.wait() == 0, _errors(folder)
    return time.monotonic() - start


def play(folder: Path, kills: int, rng: np.random.Generator) -> Tally:
    """Disturb the project ``folder`` that often, and compare each end with the first."""
    seconds, tally = prepared(folder), Tally()
    expected = contents(folder)
    clean(folder)
    while tally.kills < kills:
        ended = disturbed(folder, rng, seconds, tally)
        if ended:
            _compare(folder, expected, tally)
            clean(folder)
    while not disturbed(folder, None, seconds, tally):
        time.sleep(0.2)
    _compare(folder, expected, tally)
    return tally


def _compare(folder: Path, expected: dict[str, bytes], tally: Tally) -> None:
    found = contents(folder)
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    differing = [name for name in expected if found[name] != expected[name]]
    assert not differing, f"after {tally}: {differing} differ"
    tally.compared += 1


def disturbed(folder: Path, rng: np.random.Generator | None, seconds: float, tally: Tally) -> bool:
    """One `dvc repro`, with a signal on the way if there is an ``rng``; whether it got to its end.

    Raises:
        AssertionError: it failed with something else than a sentence on another run at work.
    """
    process, sent = _start(folder), False
    if rng is not None:
        # Most of a run is finished work; the moments soon after it takes up again count.
        sent = _send(process, rng, rng.uniform(0.2, 1.0) * seconds, tally)
    errors = _errors(folder) if process.wait() else ""
    if process.returncode == 0:
        return True
    if any(text in errors for text in REFUSALS):
        tally.refused += 1
        time.sleep(0.5)
    elif not sent:
        raise AssertionError(errors)
    assert "Traceback" not in errors or "KeyboardInterrupt" in errors, errors
    return False


def _send(process: subprocess.Popen, rng: np.random.Generator, delay: float, tally: Tally) -> bool:
    """Wait, then send a random signal to a random target; whether it was still there."""
    sent: list[int] = []
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        number = SIGNALS[rng.integers(len(SIGNALS))]
        target = TARGETS[rng.integers(len(TARGETS))]
        children = _children(process.pid)
        victims = {"both": [process.pid, *children], "dvc": [process.pid], "stage": children}[
            target
        ]
        sent = [victim for victim in victims if _kill(victim, number)]
        if sent:
            tally.signals[f"{number.name} to {target}"] += 1
        if target == "stage" and not sent:
            process.wait()
    return bool(sent)


def _kill(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _children(pid: int) -> list[int]:
    """All processes that descend from ``pid``, by /proc."""
    found, todo = [], [pid]
    while todo:
        place = Path(f"/proc/{todo.pop()}/task")
        lists = place.glob("*/children") if place.exists() else ()
        for path in lists:
            try:
                more = [int(number) for number in path.read_text().split()]
            except OSError:  # It ended meanwhile.
                continue
            found += more
            todo += more
    return found


def _start(folder: Path) -> subprocess.Popen:
    """Begin `dvc repro`; what it says goes to a file, which a stage left behind may keep open."""
    with (folder / ERRORS).open("w") as errors:
        return subprocess.Popen(
            ["dvc", "repro", *STAGES], cwd=folder, env=ENVIRONMENT, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip


def _errors(folder: Path) -> str:
    return (folder / ERRORS).read_text(encoding="utf-8")


def clean(folder: Path) -> None:
    """Delete everything that runs have made."""
    for pattern in MADE:
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def main() -> None:
    """Play and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tally = play(Path(folder), options.kills, np.random.default_rng(options.seed))
    print(f"{tally.kills} signals survived: {dict(tally.signals)}.")
    print(f"{tally.refused} reruns refused while another was at work; {tally.compared} ends equal.")


if __name__ == "__main__":
    main()
