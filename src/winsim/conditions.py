"""The conditions of `if`, and what cmd.exe takes for a number (Microsoft: "if")."""

import re

from winsim.batch import If
from winsim.filesystem import FileError, SimulatedDirectory
from winsim.shell import ShellState


def is_true(shell: ShellState, node: If) -> bool:
    """Return True if the condition of an `if` statement is true."""
    left, right = shell.expand_late(node.left), shell.expand_late(node.right)
    match node.test:
        case "exist":
            result = _exists(shell, right)
        case "defined":
            result = shell.lookup(right) is not None
        case "errorlevel":
            result = shell.errorlevel >= (parse_number(right) or 0)
        case "==":
            result = left.casefold() == right.casefold() if node.ignore_case else left == right
        case _:
            result = _compare(node.test, left, right, ignore_case=node.ignore_case)
    return result != node.negated


def _exists(shell: ShellState, text: str) -> bool:
    path = shell.resolve_path(text)
    try:
        entries = shell.host.files.list_matching(path.rstrip("\\"))
    except FileError:
        return False
    return bool(entries) and (not path.endswith("\\") or isinstance(shell.host.files.find(path), SimulatedDirectory))


def parse_number(text: str) -> int | None:
    """Parse a number as cmd.exe does: decimal, 0x…, octal with a leading 0; None for anything else."""
    plain = text.strip()
    match = re.fullmatch(r"([+-]?)(0x[0-9a-f]+|[0-9]+)", plain, re.IGNORECASE)
    if match is None:
        return None
    digits = match[2].casefold()
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") and len(digits) > 1 else 10
    try:
        value = int(digits, base)
    except ValueError:
        return None
    return -value if match[1] == "-" else value


def _compare(test: str, left: str, right: str, *, ignore_case: bool) -> bool:
    """`if left TEST right`: as numbers where both are, else as texts."""
    a, b = parse_number(left), parse_number(right)
    order = (a > b) - (a < b) if a is not None and b is not None else _compare_text(left, right, ignore_case=ignore_case)
    match test:
        case "EQU":
            return order == 0
        case "NEQ":
            return order != 0
        case "LSS":
            return order < 0
        case "LEQ":
            return order <= 0
        case "GTR":
            return order > 0
        case _:
            return order >= 0


def _compare_text(left: str, right: str, *, ignore_case: bool) -> int:
    # the order of a locale: without case first, lower case before upper where that decides
    a, b = (
        (left.casefold(), right.casefold())
        if ignore_case
        else ((left.casefold(), left.swapcase()), (right.casefold(), right.swapcase()))
    )
    return (a > b) - (a < b)  # type: ignore[operator]
