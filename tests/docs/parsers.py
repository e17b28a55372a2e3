"""The programs' own parsers, asked in this process what is wrong with words; nothing is run."""

import argparse
import contextlib
import importlib
import io
from functools import cache
from unittest.mock import patch

import click
import typer

from stages._run import app_of

PARSERS = ("parse_args", "parse_intermixed_args")


class _Parsed(Exception):
    """A program has read its flags; what it would do with them is not done."""


def by_click(command, words):
    """What a command says of the words, or that one of a group which they name; else nothing."""
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return f"no command is called {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    if words and words[-1] == "--help":
        return ""
    if isinstance(command, click.Group):
        known = {flag for one in command.params for flag in one.opts}
        return "".join(f"no such flag: {word}" for word in words if word not in known)
    try:
        with command.make_context(command.name, list(words)):
            return ""
    except click.ClickException as error:
        return error.format_message()


@cache
def stage(name):
    """The command of a stage."""
    function = getattr(importlib.import_module(f"stages.{name}"), name)
    return typer.main.get_command(app_of(function))


def by_argparse(parse, words):
    """What a function that parses says of the words before it ends the program; else nothing."""
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
            parse(list(words))
    except SystemExit as error:
        return told.getvalue() if error.code else ""
    return ""


def by_main(name, words):
    """What a program of this project says of the words; it is stopped when it has read them."""
    module = importlib.import_module(name)
    if not hasattr(module, "argparse"):
        return f"{name} takes no arguments" if words else ""

    def parse(words):
        with contextlib.ExitStack() as patched:
            for method in PARSERS:
                stopping = _stopping(getattr(argparse.ArgumentParser, method), words)
                patched.enter_context(patch.object(argparse.ArgumentParser, method, stopping))
            with contextlib.suppress(_Parsed):
                module.main()

    return by_argparse(parse, words)


def _stopping(method, words):
    def parsed(parser, *_):
        method(parser, words)
        raise _Parsed

    return parsed
