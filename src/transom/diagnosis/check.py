"""What a check of `transom doctor` is: a row of `transom.diagnosis.checks`."""

from collections.abc import Callable, Iterator

import msgspec

from transom.diagnosis.observed import Observed


class Seen(msgspec.Struct, frozen=True):
    """Something that looks wrong: the object, what was seen of it, and the command that mends it."""

    object: str
    evidence: str
    command: str


class Check(msgspec.Struct, frozen=True):
    """One thing that is looked for. `consequence` is what comes of it. `kinds` have to be read for it to be known.

    `live`: only a cluster can tell, for a directory need not hold everything.
    """

    id: str
    kinds: tuple[str, ...]
    look: Callable[[Observed], Iterator[Seen]]
    consequence: str
    live: bool = False


class Diagnosis(msgspec.Struct, frozen=True):
    """A finding of `transom doctor`."""

    id: str
    object: str
    evidence: str
    consequence: str
    command: str
