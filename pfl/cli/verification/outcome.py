"""Checks, how they are run in order, and their outcomes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pfl.errors import InputError

OK, WRONG, SKIPPED = "ok", "wrong", "skipped"


class SkippedError(Exception):
    """A check that cannot be made here; the message says why."""


@dataclass(frozen=True)
class Check:
    """One check of one artifact, a file or folder of the project that is at fault when it fails.

    It ``needs`` other artifacts to be right to tell anything. ``work`` returns what it found, or
    raises :class:`InputError` when that is wrong, or :class:`SkippedError`; it is ``slow`` where it
    recomputes something.
    """

    artifact: str
    name: str
    needs: tuple[str, ...]
    work: Callable[[], str]
    slow: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of a check: ``ok``, ``wrong`` or ``skipped``, and in words."""

    check: Check
    result: str
    detail: str


def run(checks: Sequence[Check], quick: bool, everything: bool) -> Iterator[Outcome]:
    """Make the checks in order, up to the first that is wrong or through to the end.

    After something wrong, checks that need it are skipped: they would say nothing new.
    """
    wrong: set[str] = set()
    for check in checks:
        outcome = _made(check, quick, wrong)
        yield outcome
        if outcome.result == WRONG:
            wrong.add(check.artifact)
            if not everything:
                return


def _made(check: Check, quick: bool, wrong: set[str]) -> Outcome:
    if quick and check.slow:
        return Outcome(check, SKIPPED, "slow, and --quick is given")
    missing = sorted(wrong.intersection(check.needs))
    if missing:
        return Outcome(check, SKIPPED, f"{', '.join(missing)} must be right first")
    try:
        return Outcome(check, OK, check.work())
    except SkippedError as reason:
        return Outcome(check, SKIPPED, str(reason))
    except InputError as error:
        return Outcome(check, WRONG, str(error))
