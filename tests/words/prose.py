"""Find words that the prose of Transom avoids: `uv run python tests/words/prose.py [FILE]...`.

prose.yaml lists the words. Without files, the program prints the number of findings of each file that is not checked yet.
"""

import ast
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/**/*.md")
SOURCES: Final = ("src/transom/**/*.py",)
_CODE: Final = re.compile(r"^ *(```|~~~).*?^ *\1|<!--.*?-->|\]\([^)]*\)|`[^`\n]*`", re.DOTALL | re.MULTILINE)


class Word(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern to avoid, its replacement, and the reason."""

    find: str
    use: str
    why: str


class Allowed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place where a pattern is right: a glob of files, a part of the text around it, and the reason."""

    find: str
    file: str
    text: str
    why: str


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of prose.yaml."""

    words: tuple[Word, ...]
    exceptions: tuple[Allowed, ...] = ()


class Finding(msgspec.Struct, frozen=True):
    """A match of a word. `line` is counted from 1, and `context` is the text around the match."""

    file: str
    line: int
    word: Word
    context: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.context!r}: use {self.word.use} ({self.word.why})"


def read_rules() -> Rules:
    """Return the rules. Raises msgspec.ValidationError."""
    import yaml

    return msgspec.convert(yaml.safe_load(Path(__file__).with_name("prose.yaml").read_text("utf-8")), Rules)


def list_files(*patterns: str) -> list[str]:
    """Return the files of the repository that match globs, as paths relative to it."""
    return sorted({str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)})


def find_words(file: str, rules: Rules) -> Iterator[Finding]:
    """Yield the findings of a page, or of the strings of a module."""
    text = (ROOT / file).read_text("utf-8")
    for line, prose in _read_strings(text) if file.endswith(".py") else [(1, text)]:
        yield from find_in_text(file, prose, rules, line)


def find_in_text(file: str, text: str, rules: Rules, first_line: int = 1) -> Iterator[Finding]:
    """Yield the findings of Markdown without its code, except for those that an exception allows."""
    # code keeps its length and its lines, so that findings keep their place
    plain = _CODE.sub(lambda code: re.sub(r"[^\n]", "_", code[0]), text)
    for word in rules.words:
        for match in re.finditer(_across_lines(word.find), plain, re.IGNORECASE):
            context = " ".join(plain[max(0, match.start() - 30) : match.end() + 30].split())
            if not _is_allowed(file, word, context, rules):
                yield Finding(file, first_line + plain.count("\n", 0, match.start()), word, context)


def _across_lines(pattern: str) -> str:
    """Return a pattern whose spaces also match line breaks. A look-behind needs a fixed width, so it keeps its space."""
    return re.sub(r"(\(\?<[!=][^)]*\))| ", lambda match: match[1] or r"\s+", pattern)


def _read_strings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that contain a space, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def _is_allowed(file: str, word: Word, context: str, rules: Rules) -> bool:
    return any(
        exception.find == word.find and fnmatch(file, exception.file) and exception.text in context
        for exception in rules.exceptions
    )


def main() -> int:
    """Print the findings of the given files, or of all."""
    rules = read_rules()
    files = list_files(*(sys.argv[1:] or (*PAGES, *SOURCES)))
    findings = [finding for file in files for finding in find_words(file, rules)]
    print(*findings, sep="\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
