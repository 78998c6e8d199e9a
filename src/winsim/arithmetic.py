"""`set /a`: 32-bit arithmetic with C's operators (`set /?`)."""

import re
from collections.abc import Callable

_TOKEN = re.compile(r"\s*(?:(0x[0-9a-f]+|\d+)|([A-Za-z_][\w.]*)|(<<=|>>=|<<|>>|[-+*/%&|^]=|[-+*/%&|^~!()=,]))", re.IGNORECASE)
_LEVELS = (("|",), ("^",), ("&",), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")


def evaluate(text: str, lookup: Callable[[str], str | None], assign: Callable[[str, str], None]) -> int:
    """Evaluate an expression and make its assignments. Raises ValueError if it is not valid, and ZeroDivisionError."""
    return _Reader(text, lookup, assign).parse_list()


class _Reader:
    def __init__(self, text: str, lookup: Callable[[str], str | None], assign: Callable[[str, str], None]) -> None:
        self.lookup, self.assign = lookup, assign
        self.tokens: list[str] = []
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            token_match = _TOKEN.match(stripped, at)
            if token_match is None:
                raise ValueError("not an expression")
            self.tokens.append(token_match[0].strip())
            at = token_match.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def parse_list(self) -> int:
        value = self.parse_assignment()
        while self.peek() == ",":
            self.take()
            value = self.parse_assignment()
        if self.peek():
            raise ValueError("something is left over")
        return value

    def parse_assignment(self) -> int:
        name = self.peek()
        operator = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else ""
        if operator not in _ASSIGNMENTS or not (name[0].isalpha() or name[0] == "_"):
            return self.parse_binary(0)
        self.at += 2
        value = self.parse_assignment()
        if operator != "=":
            value = _apply_operator(operator[:-1], self.read_variable(name), value)
        self.assign(name, str(value))
        return value

    def parse_binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.parse_unary()
        value = self.parse_binary(level + 1)
        while self.peek() in _LEVELS[level]:
            operator = self.take()
            value = _apply_operator(operator, value, self.parse_binary(level + 1))
        return value

    def parse_unary(self) -> int:
        word = self.take()
        if word == "(":
            value = self.parse_assignment()
            if self.take() != ")":
                raise ValueError("a parenthesis is open")
            return value
        if word in ("+", "-", "~", "!"):
            value = self.parse_unary()
            return _wrap_int32({"+": value, "-": -value, "~": ~value, "!": int(not value)}[word])
        if word[:1].isdigit():
            return _wrap_int32(_parse_number(word))
        if word and (word[0].isalpha() or word[0] == "_"):
            return self.read_variable(word)
        raise ValueError("an operand is missing")

    def read_variable(self, name: str) -> int:
        text = (self.lookup(name) or "").strip()
        match = re.match(r"[+-]?(?:0x[0-9a-f]+|\d+)", text, re.IGNORECASE)
        if match is None:
            return 0
        digits = match[0].lstrip("+-")
        return _wrap_int32(-_parse_number(digits) if match[0].startswith("-") else _parse_number(digits))


def _parse_number(text: str) -> int:
    plain = text.casefold()
    return int(plain, 16 if plain.startswith("0x") else 8 if plain.startswith("0") and len(plain) > 1 else 10)


def _apply_operator(operator: str, left: int, right: int) -> int:
    match operator:
        case "+":
            value = left + right
        case "-":
            value = left - right
        case "*":
            value = left * right
        case "/" | "%":
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            value = quotient if operator == "/" else left - quotient * right
        case "&":
            value = left & right
        case "|":
            value = left | right
        case "^":
            value = left ^ right
        case "<<":
            value = left << min(right, 32) if right >= 0 else 0
        case _:
            value = left >> min(right, 31) if right >= 0 else 0
    return _wrap_int32(value)


def _wrap_int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31
