"""The one exception that a user is meant to read, and what to say of the system's own."""

import errno
import re

NO_ACCESS = "Access is denied: make it accessible"
NO_FOLDER = "A file is where a folder is needed: move it away or name another place"
# Troubles of the user's disk and names. Other errors of the system are faults of the program.
TROUBLES = {
    errno.ENOSPC: "The disk is full: free some space",
    errno.EDQUOT: "The disk quota is used up: free some space",
    errno.EFBIG: "The file is too large for its disk or a limit: raise that or name another place",
    errno.EIO: "The disk fails: check it",
    errno.EACCES: NO_ACCESS,
    errno.EPERM: NO_ACCESS,
    errno.EROFS: NO_ACCESS,
    errno.ENOENT: "It does not exist, or no more: check the path, and that nothing deletes it",
    errno.EISDIR: "A folder is where a file is needed: move it away or name another place",
    errno.ENOTDIR: NO_FOLDER,
    errno.EEXIST: NO_FOLDER,
    errno.ENOTEMPTY: "The folder is not empty: move away what is in it",
    errno.ELOOP: "Its links go in a circle: mend them",
    errno.ENAMETOOLONG: "The name is too long: choose a shorter one",
    errno.EMFILE: "Too many files are open: raise the limit (ulimit -n)",
    errno.ENFILE: "Too many files are open: close other programs",
}


CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # among them all that ends a line


class InputError(ValueError):
    """Something the user gave cannot be used.

    The message is one or two whole sentences: what is wrong, where, and what to do about it.
    Stages and commands print it without a traceback and leave every artifact as it was.
    """

    def __str__(self) -> str:
        """The message on one line, whatever names of files are in it."""
        return printable(super().__str__())


def printable(text: str) -> str:
    r"""Text with its control characters written as escapes, as in ``a\nb``.

    Names of files may hold them, and a terminal would obey.
    """
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(error: BaseException, longest: int | None = None) -> str:
    """What a library says, which may quote all that it was given, on one line; else its kind."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"


def trouble(error: OSError) -> str | None:
    """A sentence, without its end, on a trouble of the user's disk or names; None for others."""
    if error.errno not in TROUBLES:
        return None
    # Of a renaming that failed, the second name is the one that is meant to stay.
    place = error.filename2 or error.filename or "A file"
    return printable(f"{place}: {TROUBLES[error.errno]}")


def of_system(error: BaseException) -> bool:
    """Whether the disk or the memory failed, and not what was being read."""
    number = error.errno if isinstance(error, OSError) else None
    return isinstance(error, MemoryError) or number in TROUBLES
