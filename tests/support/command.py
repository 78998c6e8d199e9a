"""The command line, in this process: what it exits with and what it writes."""

import contextlib
import io
import json
from typing import Any

from transom.cli.program import get_program


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str) -> Ran:
    """Run `transom ARGUMENTS`; an exception other than the exit is the test's."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            get_program(next(iter(arguments), None))(list(arguments))
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return Ran(code, out.getvalue(), err.getvalue())
