"""The conditions of `if`, and what cmd.exe takes for a number (Microsoft: "if")."""

import re
from typing import TYPE_CHECKING

from winsim.batch import If
from winsim.filesystem import FileError, SimulatedDirectory

if TYPE_CHECKING:
    from winsim.interpreter import Shell


def holds(shell: "Shell", node: If) -> bool:
    """Whether the statement behind `if` is carried out."""
    left, right = shell.late(node.left), shell.late(node.right)
    match node.test:
        case "exist":
            found = _exists(shell, right)
        case "defined":
            found = shell.lookup(right) is not None
        case "errorlevel":
            found = shell.errorlevel >= (number(right) or 0)
        case "==":
            found = left.casefold() == right.casefold() if node.ignore_case else left == right
        case _:
            found = _compare(node.test, left, right, ignore_case=node.ignore_case)
    return found != node.negated


def _exists(shell: "Shell", text: str) -> bool:
    path = shell.path(text)
    try:
        found = shell.host.files.matching(path.rstrip("\\"))
    except FileError:
        return False
    return bool(found) and (not path.endswith("\\") or isinstance(shell.host.files.find(path), SimulatedDirectory))


def number(text: str) -> int | None:
    """A number as cmd.exe reads it: decimal, 0x…, octal with a leading 0; None for anything else."""
    plain = text.strip()
    found = re.fullmatch(r"([+-]?)(0x[0-9a-f]+|[0-9]+)", plain, re.IGNORECASE)
    if found is None:
        return None
    digits = found[2].casefold()
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") and len(digits) > 1 else 10
    try:
        value = int(digits, base)
    except ValueError:
        return None
    return -value if found[1] == "-" else value


def _compare(test: str, left: str, right: str, *, ignore_case: bool) -> bool:
    """`if left TEST right`: as numbers where both are, else as texts."""
    a, b = number(left), number(right)
    order = (a > b) - (a < b) if a is not None and b is not None else _text_order(left, right, ignore_case=ignore_case)
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


def _text_order(left: str, right: str, *, ignore_case: bool) -> int:
    # the order of a locale: without case first, lower case before upper where that decides
    a, b = (
        (left.casefold(), right.casefold())
        if ignore_case
        else ((left.casefold(), left.swapcase()), (right.casefold(), right.swapcase()))
    )
    return (a > b) - (a < b)  # type: ignore[operator]
