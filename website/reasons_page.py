"""`python -m website.reasons_page`: write docs/reasons.md, the meaning and remedy of each reason and each alert."""

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
    "fine": "No action is required.",
    "itself": "Transom retries or continues automatically.",
    "after": "Transom continues automatically after you fix this.",
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

This page lists every `reason` of Transom's conditions and events, every error of a host, and every alert, each with its meaning
and fix.

`transom status` shows the next step for each host, and `transom doctor` finds further problems. The messages of conditions and
events (`kubectl describe`, `kubectl get events`) name the object, field or host.

- *Transom retries or continues automatically*: No action is required, unless the reason persists.
- *Transom continues automatically after you fix this*: Transom continues at its next retry or periodic check.
- NAME and ADDRESS are the name and the address of the object.

Transom also emits an event when a host gets a new reason for `Configured=False`. This page does not list the reasons of
`NodeReady`, which come from the kubelet.
"""


def render_page() -> str:
    """Render the page as Markdown."""
    errors = "These errors are reasons of `Configured`, `Reachable`, `ProxyApplied` and `TrustApplied`.\n"
    lines = (
        _HEAD,
        "## Hosts and nodes\n",
        *(line for item in _sort_reasons(HOSTS) for line in _render_reason(item)),
        "## Errors of a host\n",
        errors,
        *(line for item in _sort_reasons(ERRORS) for line in _render_reason(item)),
        "## Settings, pods and workload clusters\n",
        *(line for item in _sort_reasons(SETTINGS) for line in _render_reason(item)),
        "## Alerts\n",
        *(line for alert in ALERTS for line in _render_alert(alert)),
    )
    return "\n".join(lines)


def _sort_reasons(reasons: tuple[Reason, ...]) -> list[Reason]:
    return sorted(reasons, key=lambda item: item.id)


def _render_reason(reason_entry: Reason) -> Iterator[str]:
    where = ", ".join(_WHERE[place] for place in sorted(reason_entry.where))
    yield f"### {reason_entry.id}\n"
    if not reason_entry.remedy:
        yield f"{reason_entry.meaning} {_HEALS[reason_entry.heals]} ({where})\n"
        return
    yield f"{reason_entry.meaning} ({where})\n"
    yield f"**What to do**: {reason_entry.remedy.rstrip('.').replace('NAMESPACE', _NAMESPACE)}. {_HEALS[reason_entry.heals]}\n"


def _render_alert(alert: Alert) -> Iterator[str]:
    yield f"### {alert.name}\n"
    yield f"{alert.impact} ({alert.severity}, after {alert.minutes} min)\n"
    yield "**What to do**:\n"
    yield from (f"- {each.replace('](../', '](').replace('](Transom', '](runbooks/Transom')}" for each in alert.fix)
    yield f"\nFor commands and the expression, see the [runbook](runbooks/{alert.runbook_file}).\n"


if __name__ == "__main__":
    PAGE.write_text(render_page(), "utf-8")
