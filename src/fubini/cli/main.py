"""`fubini COMMAND`: arguments, errors without tracebacks, exit codes."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

from fubini.cli import (
    bench_command,
    compare_command,
    demo_command,
    explain_command,
    infer_command,
    launch_command,
    learn_command,
    query_command,
)
from fubini.errors import FubiniError, escaped
from fubini.version import __version__

DESCRIPTION = """Automatic integration for probabilistic programs.

A model file is a Python program, and is run: open only those that you trust. Nothing in a data file is executed."""
EPILOG = """exit codes: 0 done; 1 an error in the model, the data or the question; 2 wrong arguments; 130 interrupted"""
COMMANDS = (
    demo_command, infer_command, explain_command, compare_command, query_command, learn_command, launch_command,
    bench_command,
)  # fmt: skip
INTERRUPTED = 130
ADVICE = "  to do:    fubini --traceback COMMAND … shows the line that raised it"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors of the library go to standard error."""
    options = build_parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            print(escaped(options.run(options), keep="\n"), flush=True)
    except FubiniError as error:
        if options.traceback:
            raise
        print(escaped(f"fubini: {error}", keep="\n"), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("fubini: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone: `fubini … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # the program of a user may raise anything
        if options.traceback:
            raise
        print(escaped(f"fubini: {type(error).__name__}: {error}\n{ADVICE}", keep="\n"), file=sys.stderr)
        return 1
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="fubini", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"fubini {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where an error was raised")
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in COMMANDS:
        command.add_to(commands)
    completion = commands.add_parser("completion", help="a script that completes commands in a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    completion.set_defaults(run=lambda options: _completion(options.shell))
    return parser


def _completion(shell: str) -> str:
    try:
        import shtab
    except ImportError as error:
        raise FubiniError("fubini completion", expected="the package shtab", advice="pip install shtab") from error
    return shtab.complete(build_parser(), shell=shell)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Warnings on one line each, without the line of code that gave them."""
    print(escaped(f"fubini: warning: {message}", keep="\n"), file=sys.stderr)
