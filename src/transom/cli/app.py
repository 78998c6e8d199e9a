"""The program with all its commands, for those who look at them: help, completion, pages."""

from typing import Final

from transom.cli.program import program

app: Final = program()
