"""The commands in a text that is meant for a shell, as lists of words."""

import re
import shlex
from collections.abc import Iterator

PROMPT = "$ "
COMMENT = re.compile(r"(?:^|\s)#.*$", re.MULTILINE)
VARIABLE = re.compile(r"\w+=.*", re.DOTALL)
ENDS = set(";&|\n")
KEYWORDS = {"do", "done", "wait"}


def typed(text: str) -> str:
    """What a reader types: of a dialogue, the lines after a prompt, else all."""
    lines = [line.removeprefix(PROMPT) for line in text.split("\n") if line.startswith(PROMPT)]
    return "\n".join(lines) if lines else text


def commands(text: str) -> Iterator[list[str]]:
    """Every command that a text starts, without comments, variables before it and loops."""
    joined = COMMENT.sub("", typed(text).replace("\\\n", " "))
    split = shlex.shlex(joined, posix=True, punctuation_chars="".join(ENDS))
    split.whitespace, split.commenters, split.whitespace_split = " \t", "", True
    words: list[str] = []
    for word in [*split, ";"]:
        if word and set(word) <= ENDS:
            yield from _command(words)
            words = []
        else:
            words.append(word)


def _command(words: list[str]) -> Iterator[list[str]]:
    while words and (words[0] in KEYWORDS or VARIABLE.fullmatch(words[0])):
        words = words[1:]
    if words and words[0] not in {"for", "export"}:
        yield words
