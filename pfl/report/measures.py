"""How measures are called and written, in a terminal and on the page."""

from collections.abc import Callable

from pfl.evaluation.metrics import (
    EXTERNAL_EACH,
    EXTERNAL_TEST,
    GLOBAL,
    GLOBAL_TEST,
    LOCAL,
    LOCAL_TEST,
    NEW_TEST,
    PERSONALIZED,
    UPLOAD_BYTES,
)

UNKNOWN = "–"
SYMBOLS = {LOCAL: "local L_k", GLOBAL: "global G", PERSONALIZED: "personalized P_k"}


def percent(share: float | None) -> str:
    """A share of 0 … 1 in percent."""
    return UNKNOWN if share is None else f"{100 * share:.1f}"


def mebibytes(count: float | None) -> str:
    """A number of bytes in MiB."""
    return UNKNOWN if count is None else f"{count / 2**20:.1f}"


# Heading and unit of what is shown of each method.
COMPARED: dict[str, tuple[str, Callable[[float | None], str]]] = {
    LOCAL_TEST: (LOCAL_TEST, percent),
    GLOBAL_TEST: (GLOBAL_TEST, percent),
    NEW_TEST: (NEW_TEST, percent),
    EXTERNAL_TEST: (EXTERNAL_TEST, percent),
    EXTERNAL_EACH: (EXTERNAL_EACH, percent),
    UPLOAD_BYTES: ("upload MiB", mebibytes),
}
