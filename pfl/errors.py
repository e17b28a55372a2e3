"""The one exception that a user is meant to read."""


class InputError(ValueError):
    """Something the user gave cannot be used.

    The message is one or two whole sentences: what is wrong, where, and what to do about it.
    Stages and commands print it without a traceback and leave every artifact as it was.
    """
