"""`set /a`: 32-bit arithmetic with C's operators (`set /?`)."""

import re
from collections.abc import Callable

_TOKEN = re.compile(r"\s*(?:(0x[0-9a-f]+|\d+)|([A-Za-z_][\w.]*)|(<<=|>>=|<<|>>|[-+*/%&|^]=|[-+*/%&|^~!()=,]))", re.IGNORECASE)
_LEVELS = (("|",), ("^",), ("&",), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")


def evaluate(text: str, lookup: Callable[[str], str | None], assign: Callable[[str, str], None]) -> int:
    """The value of an expression, its assignments made. Raises ValueError when it is none, and ZeroDivisionError."""
    return _Reader(text, lookup, assign).commas()


class _Reader:
    def __init__(self, text: str, lookup: Callable[[str], str | None], assign: Callable[[str, str], None]) -> None:
        self.lookup, self.assign = lookup, assign
        self.tokens: list[str] = []
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            found = _TOKEN.match(stripped, at)
            if found is None:
                raise ValueError("not an expression")
            self.tokens.append(found[0].strip())
            at = found.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def commas(self) -> int:
        value = self.assignment()
        while self.peek() == ",":
            self.take()
            value = self.assignment()
        if self.peek():
            raise ValueError("something is left over")
        return value

    def assignment(self) -> int:
        name = self.peek()
        operator = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else ""
        if operator not in _ASSIGNMENTS or not (name[0].isalpha() or name[0] == "_"):
            return self.binary(0)
        self.at += 2
        value = self.assignment()
        if operator != "=":
            value = _combined(operator[:-1], self.variable(name), value)
        self.assign(name, str(value))
        return value

    def binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.unary()
        value = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            operator = self.take()
            value = _combined(operator, value, self.binary(level + 1))
        return value

    def unary(self) -> int:
        word = self.take()
        if word == "(":
            value = self.assignment()
            if self.take() != ")":
                raise ValueError("a parenthesis is open")
            return value
        if word in ("+", "-", "~", "!"):
            value = self.unary()
            return _wrapped({"+": value, "-": -value, "~": ~value, "!": int(not value)}[word])
        if word[:1].isdigit():
            return _wrapped(_number(word))
        if word and (word[0].isalpha() or word[0] == "_"):
            return self.variable(word)
        raise ValueError("an operand is missing")

    def variable(self, name: str) -> int:
        text = (self.lookup(name) or "").strip()
        found = re.match(r"[+-]?(?:0x[0-9a-f]+|\d+)", text, re.IGNORECASE)
        if found is None:
            return 0
        digits = found[0].lstrip("+-")
        return _wrapped(-_number(digits) if found[0].startswith("-") else _number(digits))


def _number(text: str) -> int:
    plain = text.casefold()
    return int(plain, 16 if plain.startswith("0x") else 8 if plain.startswith("0") and len(plain) > 1 else 10)


def _combined(operator: str, left: int, right: int) -> int:
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
    return _wrapped(value)


def _wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31
