"""All reasons, by id, and their page `docs/reasons.md`."""

from collections.abc import Iterator, Mapping
from typing import Final

from transom.reasons.errors import ERRORS
from transom.reasons.hosts import HOSTS
from transom.reasons.reason import Heals, Reason
from transom.reasons.settings import SETTINGS

REASONS: Final[Mapping[str, Reason]] = {one.id: one for one in (*SETTINGS, *HOSTS, *ERRORS)}
"""By id."""


_HEALS: dict[Heals, str] = {"fine": "nothing is wrong", "itself": "by itself", "after": "after you"}
_HEAD = """\
# Reasons

<!-- written by scripts/reference from src/transom/reasons -->

Every word that Transom gives as the `reason` of a condition or of an event, and every kind of error of a host. The message
beside it names the object, the field or the host. To see them: `kubectl describe`, `kubectl get events`.

The last column says how it ends. *Nothing is wrong*. *By itself*: Transom tries again or goes on; you need do nothing unless it
lasts. *After you*: once you did what is said, Transom goes on by itself, at the latest with its next try or periodic check.

Why a host is not configured (`Configured=False`) is also told as an event when it is new. What a kubelet says of its Node
stands in `NodeReady` in its own words, which are not listed here.
"""


def page() -> str:
    """The whole page, as Markdown."""
    return "\n".join(
        (_HEAD, *_section("Settings, pods and workload clusters", SETTINGS), *_section("Hosts and nodes", HOSTS), *_errors())
    )


def _errors() -> Iterator[str]:
    title, *rest = _section("Errors of a host", ERRORS)
    yield title
    yield "Their names are reasons of `Configured`, `Reachable`, `ProxyApplied` and `TrustApplied`.\n"
    yield from rest


def _section(title: str, reasons: tuple[Reason, ...]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| reason | in | means | what to do | heals |\n|---|---|---|---|---|"
    for one in sorted(reasons, key=lambda one: one.id):
        where = ", ".join(sorted(one.where - {"error"}))
        yield f"| `{one.id}` | {where or 'condition'} | {one.meaning} | {one.remedy.rstrip('.')} | {_HEALS[one.heals]} |"
    yield ""
