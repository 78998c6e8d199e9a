"""What checks claim and what became of them: what `transom verify host` and `transom verify cluster` have in common."""

from collections.abc import Callable
from typing import Literal

import msgspec

Verdict = Literal["pass", "fail", "not applicable"]


class Claim(msgspec.Struct, frozen=True):
    """What is taken for granted, the place that it was taken from, and what fails where it is wrong."""

    id: str
    claim: str
    source: str
    otherwise: str


class CheckResult(msgspec.Struct, frozen=True):
    """What became of a check: `seen` is what it goes by, `seconds` how long it took."""

    id: str
    claim: str
    source: str
    verdict: Verdict
    seen: str
    seconds: float
    otherwise: str = ""
    """What fails where the claim is wrong."""

    @classmethod
    def from_claim(cls, claim: Claim, verdict: Verdict, seen: str, seconds: float) -> "CheckResult":
        """Build the result of a claim."""
        return cls(claim.id, claim.claim, claim.source, verdict, seen, round(seconds, 3), claim.otherwise)


Told = Callable[[CheckResult], object]
