"""The words that scripts say and passes read: each stands here, and both sides name it (`@ResultWord.HELD@` in a template)."""

import re
from enum import StrEnum
from typing import Final

_NAMED: Final = re.compile(r"@(ResultWord|OutputMarker|IndexEntry)\.([A-Z_]+)@")


class ResultWord(StrEnum):
    """A line of `result.txt` is one of these, most with what it is about."""

    # whether the host was taken
    HELD = "held"
    HOLDER = "holder"
    BOOT = "boot"
    TAKEN = "taken"
    FILES_IN_USE = "filesinuse"
    PING_BLOCKED = "pingblocked"
    BEGUN = "begun"
    OVERTAKEN = "overtaken"
    SUPERSEDED = "superseded"
    UNFINISHED = "unfinished"
    # what became of the registry, and of the job that restarts
    UNCLOSED = "unclosed"
    NOT_IMPORTED = "notimported"
    NO_JOB = "nojob"
    UNWRITTEN = "unwritten"
    ENDED = "ended"
    # services: state, error of the last request, exit code, and name; or the name alone
    STUCK = "stuck"
    UNSTARTED = "unstarted"
    DISABLED = "disabled"
    OWED = "owed"
    RESTARTED = "restarted"
    GONE = "gone"
    # of what was sent: its hash
    MISMATCH = "mismatch"
    UNSENT = "unsent"
    UNHASHED = "unhashed"
    # files, directories and services of a payload
    FOREIGN = "foreign"
    UNPREPARED = "unprepared"
    MUST_BOOT = "mustboot"
    NO_DIRECTORY = "nodirectory"
    UNPLACED = "unplaced"
    UNREMOVED = "unremoved"
    UNCREATED = "uncreated"
    UNDELETED = "undeleted"
    REMAINS = "remains"
    # an installation that is taken back
    LOST = "lost"
    REVERSING = "reversing"
    UNRESTORED = "unrestored"
    REVERSED = "reversed"
    # what curl.exe fetched
    NO_CURL = "nocurl"
    FETCHED = "fetched"


class OutputMarker(StrEnum):
    """What the scripts that read a host say on standard output."""

    BEGUN = "transom-begun"
    CLOSED = "transom-closed"
    NO_ACCESS = "transom-refused: access"
    NO_ROOT = "transom-refused: root"
    LEFT = "transom-left:"
    GATHERED = "transom-gather:"


class IndexEntry(StrEnum):
    """A line of the index before what was gathered: the name of a part and its size, or of a question without an answer."""

    PART = "part"
    MISSING = "missing"
    ABSENT = "absent"
    END = "end"


_WORDS: Final = {words.__name__: words for words in (ResultWord, OutputMarker, IndexEntry)}


def substitute_words(text: str) -> str:
    """Substitute the result words in a template. Raises KeyError for an unknown word."""
    return _NAMED.sub(lambda item: _WORDS[item[1]][item[2]].value, text)
