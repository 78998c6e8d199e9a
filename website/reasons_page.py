"""`python -m website.reasons_page`: docs/reasons.md, each reason and each alert, with what it means and what to do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from transom.monitoring.alert import ALERTS, Alert
from transom.reasons import reason
from transom.reasons.errors import ERRORS
from transom.reasons.hosts import HOSTS
from transom.reasons.reason import Heals, Reason, Where
from transom.reasons.settings import SETTINGS

PAGE: Final = Path(__file__).parents[1] / reason.PAGE
_NAMESPACE: Final = "transom-system"
_HEALS: Final[dict[Heals, str]] = {
    "fine": "Nothing is wrong.",
    "itself": "It ends by itself: Transom tries again or goes on.",
    "after": "It ends once you did this.",
}
_WHERE: Final[dict[Where, str]] = {
    "condition": "condition",
    "event": "event",
    "error": "error of a host",
    "status": "`transom status`",
}
_HEAD: Final = """\
# Reasons and alerts

<!-- written by scripts/reference from src/transom/reasons and src/transom/monitoring -->

Every word that Transom gives as the `reason` of a condition or of an event, every kind of error of a host, and every alert:
what it means, and what to do. `transom status` says what is to be done beside each host, with its name; `transom doctor` finds
more. The message beside a reason names the object, the field or the host: `kubectl describe`, `kubectl get events`.

*It ends by itself*: Transom tries again or goes on; you need do nothing unless it lasts. *It ends once you did this*: then
Transom goes on by itself, at the latest with its next try or periodic check. NAME, ADDRESS: those of the object.

Why a host is not configured (`Configured=False`) is also told as an event when it is new. What a kubelet says of its Node
stands in `NodeReady` in its own words, which are not listed here.
"""


def page() -> str:
    """The page, as Markdown."""
    errors = "Their names are reasons of `Configured`, `Reachable`, `ProxyApplied` and `TrustApplied`.\n"
    lines = (
        _HEAD,
        "## Hosts and nodes\n",
        *(line for one in _sorted(HOSTS) for line in _reason(one)),
        "## Errors of a host\n",
        errors,
        *(line for one in _sorted(ERRORS) for line in _reason(one)),
        "## Settings, pods and workload clusters\n",
        *(line for one in _sorted(SETTINGS) for line in _reason(one)),
        "## Alerts\n",
        *(line for one in ALERTS for line in _alert(one)),
    )
    return "\n".join(lines)


def _sorted(reasons: tuple[Reason, ...]) -> list[Reason]:
    return sorted(reasons, key=lambda one: one.id)


def _reason(one: Reason) -> Iterator[str]:
    where = ", ".join(_WHERE[place] for place in sorted(one.where))
    yield f"### {one.id}\n"
    if not one.remedy:
        yield f"{one.meaning} {_HEALS[one.heals]} ({where})\n"
        return
    yield f"{one.meaning} ({where})\n"
    yield f"**Do**: {one.remedy.rstrip('.').replace('NAMESPACE', _NAMESPACE)}. {_HEALS[one.heals]}\n"


def _alert(one: Alert) -> Iterator[str]:
    yield f"### {one.name}\n"
    yield f"{one.impact} ({one.severity}, after {one.minutes} minutes)\n"
    yield "**Do**:\n"
    yield from (f"- {each.replace('](../', '](').replace('](Transom', '](runbooks/Transom')}" for each in one.mend)
    yield f"\nIt ends by itself once that is mended. What to look at, and the expression: [runbook](runbooks/{one.page}).\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
