"""The command line: models and networks of files, asked without writing a program."""

from fubini.cli.main import main as main
