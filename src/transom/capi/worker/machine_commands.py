"""What a command of a machine may be: cloudbase-init puts all of them into one .cmd file, line by line."""

import re
from collections.abc import Iterator

COMMAND = 8_191
"""What cmd.exe reads of a line, in characters (Microsoft: "Command prompt line string limitation")."""

_TEMPLATE = ("{{", "{%", "{#")
_WORD = r'(?:"[^"]*"|[^\s"]+)'
_SCRIPT = re.compile(r'(?i)@?(?:"[^"]+\.(?:cmd|bat)"|[^"\s]+\.(?:cmd|bat)"?)(?=\s|\Z)')
_LEAVES = re.compile(r"(?i)@?(?:exit|goto)\b")
# `if` with its condition (Microsoft: "if"), and `else`: a command of its own comes after them
_CONDITION = re.compile(
    rf"(?i)@?(?:else|if\s+(?:/i\s+)?(?:not\s+)?(?:(?:exist|defined|errorlevel|cmdextversion)\s+{_WORD}"
    rf"|{_WORD}\s*==\s*{_WORD}|{_WORD}\s+(?:equ|neq|lss|leq|gtr|geq)\s+{_WORD}))\s+"
)


def find_command_problems(command: str) -> Iterator[str]:
    """Why a command cannot be a line of the one script that cloudbase-init makes of all commands."""
    instead = "put it into a file of `files`, as a script, and call that with `cmd.exe /d /c C:\\k\\name.cmd`"
    if not command.strip():
        yield "an empty command"
    if any(not " " <= letter <= "~" for letter in command):
        yield f"cmd.exe reads the script in the code page of the machine: printable ASCII alone; {instead}"
    if "%" in command:
        yield f"cmd.exe expands `%`: {instead}"
    if any(mark in command for mark in _TEMPLATE):
        yield f"cloudbase-init reads `{{{{`, `{{%` and `{{#` as a template: {instead}"
    if command.rstrip().endswith("^"):
        yield "a `^` at the end takes the next command into this line"
    if not _is_balanced(command):
        yield f"a parenthesis without its other half takes the later commands into it: {instead}"
    parts = list(_split_command(command))
    if any(_SCRIPT.match(part) for part in parts):
        yield "a script that is named alone ends all commands: put `call` or `cmd.exe /d /c` before it"
    if any(_LEAVES.match(part) for part in parts):
        yield "this leaves the script that all commands are in, before the later ones: use `cmd.exe /d /c`"
    if len(command) > COMMAND:
        yield f"{len(command):,} characters; cmd.exe reads {COMMAND:,} of a line: {instead}"


def _split_command(command: str) -> Iterator[str]:
    """Yield the commands of a line, each from its first word: after `&`, `|`, parentheses and conditions."""
    part = ""
    for letter, operator in _iter_letters(command):
        if operator and letter in "&|()":
            yield _strip_conditions(part)
            part = ""
        else:
            part += letter
    yield _strip_conditions(part)


def _strip_conditions(part: str) -> str:
    part = part.strip(" @")
    while match := _CONDITION.match(part):
        part = part[match.end() :].strip(" @")
    return part


def _is_balanced(command: str) -> bool:
    open_ones = 0
    for letter, operator in _iter_letters(command):
        if operator and letter in "()":
            open_ones += 1 if letter == "(" else -1
        if open_ones < 0:
            return False
    return open_ones == 0


def _iter_letters(command: str) -> Iterator[tuple[str, bool]]:
    """Each letter, and whether cmd.exe may read it as an operator: not in quotes, and not after `^`."""
    quoted = escaped = False
    for letter in command:
        yield letter, not (quoted or escaped)
        if letter == '"' and not escaped:
            quoted = not quoted
        escaped = letter == "^" and not (quoted or escaped)
