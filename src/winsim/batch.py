"""The grammar of cmd.exe's batch language: from a line whose `%` are expanded to a tree (Microsoft: "cmd", "if", "for").

What is expanded later (`%%a` of a loop, `!x!`) stands in the tree's texts as it was written. Parsed lines are cached: hosts
run the same scripts.
"""

import re
from functools import lru_cache
from typing import Literal

import msgspec

COMPARISONS = ("EQU", "NEQ", "LSS", "LEQ", "GTR", "GEQ")
_DELIMITERS = " \t,;="
_SPECIAL = re.compile(r'["^&|<>()\n]')
_FOR = re.compile(r"for[ \t]+(?:/(?P<kind>[dlrf])[ \t]+)?", re.IGNORECASE)
_REDIRECTION = re.compile(r"([0-9])?(>>|>|<)(&[0-9])?[ \t,;=]*")
_VARIABLE = re.compile(r"%([^\s])[ \t,;=]+in[ \t,;=]*\(", re.IGNORECASE)
_WORD = re.compile(r"[^\s,;=()&|<>\"]+")


class BatchSyntaxError(Exception):
    """What cmd.exe says of a line that it cannot read; it ends the whole script."""


class Incomplete(Exception):
    """A parenthesis or a caret that goes on in the next line."""


class Redirection(msgspec.Struct, frozen=True):
    """`2>nul` and the like; for mode `&` the target is a handle's number."""

    handle: int
    mode: Literal["<", ">", ">>", "&"]
    target: str


class Command(msgspec.Struct, frozen=True):
    """A command's name and arguments as one text, its carets taken off."""

    text: str
    redirections: tuple[Redirection, ...] = ()


class Block(msgspec.Struct, frozen=True):
    """Statements in parentheses, or joined by `&` or line ends."""

    statements: tuple["Node", ...]
    redirections: tuple[Redirection, ...] = ()


class Chain(msgspec.Struct, frozen=True):
    """`left && right`, `left || right`, `left | right`."""

    operator: Literal["&&", "||", "|"]
    left: "Node"
    right: "Node"


class If(msgspec.Struct, frozen=True):
    """`test` is `exist`, `defined`, `errorlevel`, `==`, or one of COMPARISONS; `left` is unused by the first three's."""

    test: str
    left: str
    right: str
    negated: bool
    ignore_case: bool
    then: "Node"
    otherwise: "Node | None" = None


class For(msgspec.Struct, frozen=True):
    """`kind` is the switch (`d`, `l`, `r`, `f`) or empty; `options` those of `/f`, without their quotes."""

    kind: str
    options: str
    variable: str
    items: str
    body: "Node"


Node = Command | Block | Chain | If | For


class BatchScript:
    """A batch file's lines, and where its labels are."""

    __slots__ = ("labels", "lines")

    def __init__(self, text: str) -> None:
        self.lines = tuple(line.removesuffix("\r") for line in text.split("\n"))
        self.labels: dict[str, list[int]] = {}
        for number, line in enumerate(self.lines):
            start = line.lstrip(_DELIMITERS)
            if start.startswith(":") and (name := _label(start[1:])):
                self.labels.setdefault(name.casefold(), []).append(number)

    def find(self, label: str, after: int) -> int | None:
        """The line of a label: looked for from the line `after` on, then from the top."""
        places = self.labels.get(label.casefold(), ())
        return next((place for place in places if place >= after), places[0] if places else None)


@lru_cache(maxsize=1024)
def script(data: bytes) -> BatchScript:
    """A batch file's script; the same content gives the same one. Bytes are letters of the OEM code page."""
    return BatchScript(data.decode("cp437"))


def _label(text: str) -> str:
    found = re.match(r"[ \t]*([^\s:+&|<>,;=]+)", text)
    return found[1] if found else ""


@lru_cache(maxsize=16384)
def parse(text: str) -> Node | None:
    """The tree of a line; None for one that says nothing. Raises BatchSyntaxError, and Incomplete when lines are missing."""
    parser = _Parser(text)
    node = parser.sequence(0)
    if not parser.at_end():
        raise BatchSyntaxError(f"{parser.rest_word()} was unexpected at this time.")
    return node


class _Parser:
    """A reader of one logical line; `depth` counts the open parentheses."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def at_end(self) -> bool:
        self.skip(_DELIMITERS + "\n")
        return self.at >= len(self.text)

    def rest_word(self) -> str:
        found = _WORD.match(self.text, self.at)
        return found[0] if found else self.text[self.at : self.at + 1]

    def skip(self, letters: str) -> None:
        while self.at < len(self.text) and self.text[self.at] in letters:
            self.at += 1

    def looking_at(self, mark: str) -> bool:
        return self.text.startswith(mark, self.at)

    def sequence(self, depth: int) -> Node | None:
        """Statements joined by `&`, within parentheses by line ends too."""
        found: list[Node] = []
        while True:
            self.skip(_DELIMITERS + ("\n" if depth else ""))
            if (depth and self.looking_at(")")) or self.at >= len(self.text):
                break
            statement = self.alternatives(depth)
            if statement is not None:
                found.append(statement)
            self.skip(" \t")
            if self.looking_at("&") and not self.looking_at("&&"):
                self.at += 1
            elif not (depth and self.looking_at("\n")):
                break
        if len(found) == 1:
            return found[0]
        return Block(tuple(found)) if found else None

    def body(self, depth: int) -> Node:
        """What follows a condition or `do`: up to the end of the line or of the block."""
        found: list[Node] = []
        while (statement := self.alternatives(depth)) is not None:
            found.append(statement)
            self.skip(" \t")
            if not self.looking_at("&") or self.looking_at("&&"):
                break
            self.at += 1
        if not found:
            raise BatchSyntaxError("The syntax of the command is incorrect.")
        return found[0] if len(found) == 1 else Block(tuple(found))

    def alternatives(self, depth: int) -> Node | None:
        return self.joined("||", depth)

    def joined(self, operator: Literal["&&", "||", "|"], depth: int) -> Node | None:
        """`||` binds least, `|` most."""
        left = self.statement(depth) if operator == "|" else self.joined("&&" if operator == "||" else "|", depth)
        self.skip(" \t")
        while left is not None and self.looking_at(operator) and not (operator == "|" and self.looking_at("||")):
            self.at += len(operator)
            right = self.statement(depth) if operator == "|" else self.joined("&&" if operator == "||" else "|", depth)
            if right is None:
                raise BatchSyntaxError("The syntax of the command is incorrect.")
            left = Chain(operator, left, right)
            self.skip(" \t")
        return left

    def statement(self, depth: int) -> Node | None:
        self.skip(_DELIMITERS + "@")
        leading = self.redirections()
        if self.looking_at("("):
            return self.block(depth, leading)
        if self.looking_at(":"):
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
            return None
        word = _WORD.match(self.text, self.at)
        name = word[0].casefold() if word else ""
        if leading:
            return self.command(depth, leading)
        if name == "if" or name.startswith("if/"):
            self.at += 2
            return self.condition(depth)
        if name == "for":
            return self.loop(depth)
        if name == "rem":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
            return Command("rem")
        return self.command(depth, leading)

    def block(self, depth: int, leading: list[Redirection]) -> Node:
        self.at += 1
        inside = self.sequence(depth + 1)
        self.skip(_DELIMITERS + "\n")
        if not self.looking_at(")"):
            if self.at >= len(self.text):
                raise Incomplete
            raise BatchSyntaxError(f"{self.rest_word()} was unexpected at this time.")
        self.at += 1
        redirections = leading + self.redirections()
        statements = (inside,) if inside is not None else ()
        return Block(statements, tuple(redirections))

    def redirections(self) -> list[Redirection]:
        """The redirections at the place, in front of a command or behind a block."""
        found: list[Redirection] = []
        while True:
            self.skip(" \t")
            redirection = self.redirection(self.at)
            if redirection is None:
                return found
            found.append(redirection)

    def command(self, depth: int, leading: list[Redirection]) -> Node | None:
        text, start = self.text, self.at
        pieces: list[str] = []
        redirections = list(leading)
        while self.at < len(text):
            special = _SPECIAL.search(text, self.at)
            stop = special.start() if special else len(text)
            pieces.append(text[self.at : stop])
            self.at = stop
            if special is None or special[0] in "&|\n" or (special[0] == ")" and depth):
                break
            letter = special[0]
            if letter == '"':
                close = closing(text, stop)
                pieces.append(text[stop:close])
                self.at = close
            elif letter == "^":
                if stop + 1 >= len(text):
                    raise Incomplete
                skipped = 2 if text[stop + 1] == "\n" else 1
                pieces.append(text[stop + skipped : stop + skipped + 1])
                self.at = stop + skipped + 1
            elif letter in "<>":
                before = "".join(pieces)
                handle = before[-1:] if before[-1:].isdigit() and (len(before) == 1 or before[-2] in _DELIMITERS) else ""
                pieces = [before[: len(before) - len(handle)]]
                self.at = stop - len(handle)
                found = self.redirection(self.at)
                if found is None:
                    raise BatchSyntaxError(f"{letter} was unexpected at this time.")
                redirections.append(found)
            else:
                pieces.append(letter)
                self.at += 1
        whole = "".join(pieces)
        if not whole.strip(_DELIMITERS) and not redirections:
            if self.at < len(text) and self.at == start:
                raise BatchSyntaxError(f"{self.rest_word()} was unexpected at this time.")
            return None
        return Command(whole, tuple(redirections))

    def redirection(self, at: int) -> Redirection | None:
        """A redirection at the place, if there is one."""
        found = _REDIRECTION.match(self.text, at)
        if found is None:
            return None
        self.at = found.end()
        handle = int(found[1]) if found[1] else (0 if found[2] == "<" else 1)
        if found[3]:
            return Redirection(handle, "&", found[3][1:])
        target = self.token()
        if not target:
            raise BatchSyntaxError("The syntax of the command is incorrect.")
        return Redirection(handle, found[2], target.replace('"', ""))  # type: ignore[arg-type]

    def token(self, stops: str = _DELIMITERS + "&|<>()\n") -> str:
        """The text up to a delimiter outside quotes."""
        text, start = self.text, self.at
        while self.at < len(text) and text[self.at] not in stops:
            self.at = closing(text, self.at) if text[self.at] == '"' else self.at + 1
        return text[start : self.at]

    def condition(self, depth: int) -> Node:
        ignore_case = negated = False
        while True:
            self.skip(_DELIMITERS)
            word = _WORD.match(self.text, self.at)
            name = word[0].casefold() if word else ""
            if name == "/i":
                ignore_case = True
            elif name == "not":
                negated = not negated
            else:
                break
            self.at += len(name)
        if name in ("exist", "defined", "errorlevel"):
            self.at += len(name)
            self.skip(_DELIMITERS)
            test, left, right = name, "", self.token(_DELIMITERS + "&|<>\n")
        else:
            test, left, right = self.comparison(depth)
        self.skip(_DELIMITERS)
        then = self.body(depth)
        self.skip(" \t")
        word = _WORD.match(self.text, self.at)
        otherwise = None
        if word and word[0].casefold() == "else":
            self.at += 4
            self.skip(_DELIMITERS)
            otherwise = self.body(depth)
        return If(test, left, right, negated, ignore_case, then, otherwise)

    def comparison(self, depth: int) -> tuple[str, str, str]:
        stops = _DELIMITERS + "&|<>\n" + (")" if depth else "")
        left = self.token(stops)
        self.skip(" \t")
        if self.looking_at("=="):
            self.at += 2
            self.skip(_DELIMITERS)
            test = "=="
        else:
            self.skip(_DELIMITERS)
            word = _WORD.match(self.text, self.at)
            test = word[0].upper() if word else ""
            if test not in COMPARISONS:
                raise BatchSyntaxError(f"{self.rest_word()} was unexpected at this time.")
            self.at += 3
            self.skip(_DELIMITERS)
        right = self.token(stops)
        if not left or not right:
            raise BatchSyntaxError(f"{self.rest_word() or '=='} was unexpected at this time.")
        return test, left, right

    def loop(self, depth: int) -> Node:
        head = _FOR.match(self.text, self.at)
        if head is None:
            raise BatchSyntaxError("The syntax of the command is incorrect.")
        self.at = head.end()
        kind = (head["kind"] or "").casefold()
        options = ""
        if kind in ("f", "r") and not self.looking_at("%"):
            options = self.token(_DELIMITERS).replace('"', "")
            self.skip(_DELIMITERS)
        variable = _VARIABLE.match(self.text, self.at)
        if variable is None:
            raise BatchSyntaxError(f"{self.rest_word()} was unexpected at this time.")
        self.at = start = variable.end()
        while self.at < len(self.text) and self.text[self.at] != ")":
            self.at = closing(self.text, self.at) if self.text[self.at] == '"' else self.at + 1
        if self.at >= len(self.text):
            raise Incomplete
        items = self.text[start : self.at]
        self.at += 1
        self.skip(_DELIMITERS)
        word = _WORD.match(self.text, self.at)
        if word is None or word[0].casefold() != "do":
            raise BatchSyntaxError(f"{self.rest_word()} was unexpected at this time.")
        self.at += 2
        self.skip(_DELIMITERS)
        return For(kind, options, variable[1], items, self.body(depth))


def closing(text: str, quote: int) -> int:
    """The place behind the quote that closes the one at `quote`; a line's end closes it too."""
    close = text.find('"', quote + 1)
    end = text.find("\n", quote + 1)
    end = len(text) if end < 0 else end
    return close + 1 if 0 <= close < end else end
