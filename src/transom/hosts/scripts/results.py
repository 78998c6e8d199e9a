"""The words that scripts say and passes read: each stands here, and both sides name it (`@Word.HELD@` in a template)."""

import re
from enum import StrEnum
from typing import Final

_NAMED: Final = re.compile(r"@(Word|Told|Entry)\.([A-Z_]+)@")


class Word(StrEnum):
    """A line of `result.txt` is one of these, most with what it is about."""

    # whether the host was taken
    HELD = "held"
    HOLDER = "holder"
    BOOT = "boot"
    TAKEN = "taken"
    BEGUN = "begun"
    OVERTAKEN = "overtaken"
    SUPERSEDED = "superseded"
    UNFINISHED = "unfinished"
    # what became of the registry, and of the job that restarts
    UNCLOSED = "unclosed"
    NOT_IMPORTED = "notimported"
    NO_JOB = "nojob"
    ENDED = "ended"
    # services: state and name
    STUCK = "stuck"
    UNSTARTED = "unstarted"
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


class Told(StrEnum):
    """What the scripts that read a host say on standard output."""

    BEGUN = "transom-begun"
    CLOSED = "transom-closed"
    NO_ACCESS = "transom-refused: access"
    NO_ROOT = "transom-refused: root"
    LEFT = "transom-left:"
    GATHERED = "transom-gather:"


class Entry(StrEnum):
    """A line of the index before what was gathered: the name of a part and its size, or of a question without an answer."""

    PART = "part"
    MISSING = "missing"
    ABSENT = "absent"
    END = "end"


_WORDS: Final = {"Word": Word, "Told": Told, "Entry": Entry}


def named(text: str) -> str:
    """A template with the words that it names. Raises KeyError for one that is not here."""
    return _NAMED.sub(lambda found: _WORDS[found[1]][found[2]].value, text)
