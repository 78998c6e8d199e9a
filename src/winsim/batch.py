"""The grammar of cmd.exe's batch language: from a line whose `%` are expanded to a tree (Microsoft: "cmd", "if", "for").

What is expanded later (`%%a` of a loop, `!x!`) is in the tree's texts as it was written. Parsed lines are cached: hosts
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
    """A parenthesis or a caret that continues on the next line."""


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
            if start.startswith(":") and (name := _parse_label(start[1:])):
                self.labels.setdefault(name.casefold(), []).append(number)

    def find(self, label: str, after: int) -> int | None:
        """Return the line number of a label, searching from the line `after` and then from the top."""
        places = self.labels.get(label.casefold(), ())
        return next((place for place in places if place >= after), places[0] if places else None)


@lru_cache(maxsize=1024)
def parse_script(data: bytes) -> BatchScript:
    """Parse a batch file in the OEM code page; equal content returns the same object."""
    return BatchScript(data.decode("cp437"))


def _parse_label(text: str) -> str:
    match = re.match(r"[ \t]*([^\s:+&|<>,;=]+)", text)
    return match[1] if match else ""


@lru_cache(maxsize=16384)
def parse(text: str) -> Node | None:
    """Parse a line into a tree, or None if it has no command.

    Raises BatchSyntaxError, and Incomplete if lines are missing.
    """
    parser = _Parser(text)
    node = parser.parse_sequence(0)
    if not parser.is_at_end():
        raise BatchSyntaxError(f"{parser.peek_word()} was unexpected at this time.")
    return node


class _Parser:
    """A reader of one logical line; `depth` counts the open parentheses."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def is_at_end(self) -> bool:
        self.skip(_DELIMITERS + "\n")
        return self.at >= len(self.text)

    def peek_word(self) -> str:
        match = _WORD.match(self.text, self.at)
        return match[0] if match else self.text[self.at : self.at + 1]

    def skip(self, letters: str) -> None:
        while self.at < len(self.text) and self.text[self.at] in letters:
            self.at += 1

    def is_at(self, mark: str) -> bool:
        return self.text.startswith(mark, self.at)

    def parse_sequence(self, depth: int) -> Node | None:
        """Parse statements joined by `&`, and inside parentheses also by line ends."""
        statements: list[Node] = []
        while True:
            self.skip(_DELIMITERS + ("\n" if depth else ""))
            if (depth and self.is_at(")")) or self.at >= len(self.text):
                break
            statement = self.parse_alternatives(depth)
            if statement is not None:
                statements.append(statement)
            self.skip(" \t")
            if self.is_at("&") and not self.is_at("&&"):
                self.at += 1
            elif not (depth and self.is_at("\n")):
                break
        if len(statements) == 1:
            return statements[0]
        return Block(tuple(statements)) if statements else None

    def parse_body(self, depth: int) -> Node:
        """Parse the statements after a condition or `do`, up to the end of the line or block."""
        statements: list[Node] = []
        while (statement := self.parse_alternatives(depth)) is not None:
            statements.append(statement)
            self.skip(" \t")
            if not self.is_at("&") or self.is_at("&&"):
                break
            self.at += 1
        if not statements:
            raise BatchSyntaxError("The syntax of the command is incorrect.")
        return statements[0] if len(statements) == 1 else Block(tuple(statements))

    def parse_alternatives(self, depth: int) -> Node | None:
        return self.parse_chain("||", depth)

    def parse_chain(self, operator: Literal["&&", "||", "|"], depth: int) -> Node | None:
        """Parse statements joined by an operator: `||` binds least, `|` most."""
        left = self.parse_statement(depth) if operator == "|" else self.parse_chain("&&" if operator == "||" else "|", depth)
        self.skip(" \t")
        while left is not None and self.is_at(operator) and not (operator == "|" and self.is_at("||")):
            self.at += len(operator)
            right = (
                self.parse_statement(depth) if operator == "|" else self.parse_chain("&&" if operator == "||" else "|", depth)
            )
            if right is None:
                raise BatchSyntaxError("The syntax of the command is incorrect.")
            left = Chain(operator, left, right)
            self.skip(" \t")
        return left

    def parse_statement(self, depth: int) -> Node | None:
        self.skip(_DELIMITERS + "@")
        leading = self.parse_redirections()
        if self.is_at("("):
            return self.parse_block(depth, leading)
        if self.is_at(":"):
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
            return None
        word = _WORD.match(self.text, self.at)
        name = word[0].casefold() if word else ""
        if leading:
            return self.parse_command(depth, leading)
        if name == "if" or name.startswith("if/"):
            self.at += 2
            return self.parse_condition(depth)
        if name == "for":
            return self.parse_loop(depth)
        if name == "rem":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
            return Command("rem")
        return self.parse_command(depth, leading)

    def parse_block(self, depth: int, leading: list[Redirection]) -> Node:
        self.at += 1
        inside = self.parse_sequence(depth + 1)
        self.skip(_DELIMITERS + "\n")
        if not self.is_at(")"):
            if self.at >= len(self.text):
                raise Incomplete
            raise BatchSyntaxError(f"{self.peek_word()} was unexpected at this time.")
        self.at += 1
        redirections = leading + self.parse_redirections()
        statements = (inside,) if inside is not None else ()
        return Block(statements, tuple(redirections))

    def parse_redirections(self) -> list[Redirection]:
        """Parse the redirections at the current position, before a command or after a block."""
        redirections: list[Redirection] = []
        while True:
            self.skip(" \t")
            redirection = self.parse_redirection(self.at)
            if redirection is None:
                return redirections
            redirections.append(redirection)

    def parse_command(self, depth: int, leading: list[Redirection]) -> Node | None:
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
                close = find_quote_end(text, stop)
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
                redirection = self.parse_redirection(self.at)
                if redirection is None:
                    raise BatchSyntaxError(f"{letter} was unexpected at this time.")
                redirections.append(redirection)
            else:
                pieces.append(letter)
                self.at += 1
        whole = "".join(pieces)
        if not whole.strip(_DELIMITERS) and not redirections:
            if self.at < len(text) and self.at == start:
                raise BatchSyntaxError(f"{self.peek_word()} was unexpected at this time.")
            return None
        return Command(whole, tuple(redirections))

    def parse_redirection(self, at: int) -> Redirection | None:
        """Parse a redirection at a position, or return None."""
        match = _REDIRECTION.match(self.text, at)
        if match is None:
            return None
        self.at = match.end()
        handle = int(match[1]) if match[1] else (0 if match[2] == "<" else 1)
        if match[3]:
            return Redirection(handle, "&", match[3][1:])
        target = self.parse_token()
        if not target:
            raise BatchSyntaxError("The syntax of the command is incorrect.")
        return Redirection(handle, match[2], target.replace('"', ""))  # type: ignore[arg-type]

    def parse_token(self, stops: str = _DELIMITERS + "&|<>()\n") -> str:
        """Return the text up to a delimiter outside quotes."""
        text, start = self.text, self.at
        while self.at < len(text) and text[self.at] not in stops:
            self.at = find_quote_end(text, self.at) if text[self.at] == '"' else self.at + 1
        return text[start : self.at]

    def parse_condition(self, depth: int) -> Node:
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
            test, left, right = name, "", self.parse_token(_DELIMITERS + "&|<>\n")
        else:
            test, left, right = self.parse_comparison(depth)
        self.skip(_DELIMITERS)
        then = self.parse_body(depth)
        self.skip(" \t")
        word = _WORD.match(self.text, self.at)
        otherwise = None
        if word and word[0].casefold() == "else":
            self.at += 4
            self.skip(_DELIMITERS)
            otherwise = self.parse_body(depth)
        return If(test, left, right, negated, ignore_case, then, otherwise)

    def parse_comparison(self, depth: int) -> tuple[str, str, str]:
        stops = _DELIMITERS + "&|<>\n" + (")" if depth else "")
        left = self.parse_token(stops)
        self.skip(" \t")
        if self.is_at("=="):
            self.at += 2
            self.skip(_DELIMITERS)
            test = "=="
        else:
            self.skip(_DELIMITERS)
            word = _WORD.match(self.text, self.at)
            test = word[0].upper() if word else ""
            if test not in COMPARISONS:
                raise BatchSyntaxError(f"{self.peek_word()} was unexpected at this time.")
            self.at += 3
            self.skip(_DELIMITERS)
        right = self.parse_token(stops)
        if not left or not right:
            raise BatchSyntaxError(f"{self.peek_word() or '=='} was unexpected at this time.")
        return test, left, right

    def parse_loop(self, depth: int) -> Node:
        head = _FOR.match(self.text, self.at)
        if head is None:
            raise BatchSyntaxError("The syntax of the command is incorrect.")
        self.at = head.end()
        kind = (head["kind"] or "").casefold()
        options = ""
        if kind in ("f", "r") and not self.is_at("%"):
            options = self.parse_token(_DELIMITERS).replace('"', "")
            self.skip(_DELIMITERS)
        variable = _VARIABLE.match(self.text, self.at)
        if variable is None:
            raise BatchSyntaxError(f"{self.peek_word()} was unexpected at this time.")
        self.at = start = variable.end()
        while self.at < len(self.text) and self.text[self.at] != ")":
            self.at = find_quote_end(self.text, self.at) if self.text[self.at] == '"' else self.at + 1
        if self.at >= len(self.text):
            raise Incomplete
        items = self.text[start : self.at]
        self.at += 1
        self.skip(_DELIMITERS)
        word = _WORD.match(self.text, self.at)
        if word is None or word[0].casefold() != "do":
            raise BatchSyntaxError(f"{self.peek_word()} was unexpected at this time.")
        self.at += 2
        self.skip(_DELIMITERS)
        return For(kind, options, variable[1], items, self.parse_body(depth))


def find_quote_end(text: str, quote: int) -> int:
    """Return the index after the quote that closes the one at `quote`; the end of the line closes it too."""
    close = text.find('"', quote + 1)
    end = text.find("\n", quote + 1)
    end = len(text) if end < 0 else end
    return close + 1 if 0 <= close < end else end
