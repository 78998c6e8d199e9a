"""What each ServiceAccount may do and why, as tables for people: the page `docs/security.md` holds them."""

from collections.abc import Iterator, Mapping

from transom.manifests import admission, roles
from transom.manifests.grants import EVENTS_OF_CLUSTER, NAME, SYSTEM, Grants, Rule
from transom.manifests.roles import ALWAYS, GRANTS
from transom.manifests.templates import OWN

BEGIN = "<!-- rights: written by scripts/reference from manifests/roles.py -->"
END = "<!-- /rights -->"
VERIFY_BEGIN = "<!-- rights of verify cluster: written by scripts/reference from manifests/roles.py -->"
VERIFY_END = "<!-- /rights of verify cluster -->"
EVERY = "each"
"""In the column of controllers: needed whichever run."""
_HEAD = "| where | what | verbs | for |"
_RULE = "|---|---|---|---|"
_PLACES = {None: "everywhere", OWN: "its own namespace", EVENTS_OF_CLUSTER: "`default`", SYSTEM: "`kube-system`"}


def insert_rights(page: str) -> str:
    """Return a page with new tables between their marks."""
    return _replace_between(
        _replace_between(page, BEGIN, render_rights(), END), VERIFY_BEGIN, render_verify_cluster_rights(), VERIFY_END
    )


def _replace_between(page: str, begin: str, table: str, end: str) -> str:
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{table}\n{end}{after}"


def render_verify_cluster_rights() -> str:
    """Render the rights that `transom verify cluster` needs as a Markdown table."""
    rows = "".join(f"{row}\n" for row, _ in _iter_rows({EVERY: Grants(everywhere=roles.VERIFY_CLUSTER_RULES)}))
    return f"{_HEAD}\n{_RULE}\n{rows}"


def render_rights() -> str:
    """Both tables, as Markdown; resources are named as `kubectl auth can-i --list` names them."""
    operator = "".join(f"{row} {who} |\n" for row, who in _iter_rows({EVERY: ALWAYS, **GRANTS}))
    webhook = "".join(f"{row}\n" for row, _ in _iter_rows({EVERY: admission.WEBHOOK}))
    return (
        f"ServiceAccount `{NAME}`:\n\n{_HEAD} controllers |\n{_RULE}---|\n{operator}\n"
        f"ServiceAccount `{admission.NAME}`:\n\n{_HEAD}\n{_RULE}\n{webhook}"
    )


def iter_qualified_resources(rule: Rule) -> Iterator[str]:
    """`pods/eviction`, `machines.cluster.x-k8s.io`, `egressproxies.transom.dev/status`."""
    for resource in rule.resources:
        name, slash, subresource = resource.partition("/")
        yield f"{name}{'.' * bool(rule.group)}{rule.group}{slash}{subresource}"


def _iter_rows(parts: Mapping[str, Grants]) -> Iterator[tuple[str, str]]:
    """Each row without its last cell, and that: who needs it."""
    reasons_by_row: dict[tuple[str | None, str, str], tuple[list[str], list[str]]] = {}
    for part, grants in parts.items():
        for place, item in _iter_rules(grants):
            what = "<br>".join(f"`{resource}`" for resource in iter_qualified_resources(item))
            named = f" named {', '.join(map(_format_name, item.names))}" if item.names else ""
            verbs = ", ".join(f"`{verb}`" for verb in item.verbs)
            whys, names = reasons_by_row.setdefault((place, what + named, verbs), ([], []))
            whys.append(item.why)
            names.append(part)
    for (place, entry, verbs), (whys, names) in reasons_by_row.items():
        where = _PLACES.get(place, f"`{place}`, `--openshift`")
        who = EVERY if EVERY in names else ", ".join(f"`{name}`" for name in dict.fromkeys(names))
        yield f"| {where} | {entry} | {verbs} | {'; '.join(dict.fromkeys(whys))} |", who


def _format_name(name: str) -> str:
    return "as its own" if name == OWN else f"`{name}`"


def _iter_rules(grants: Grants) -> Iterator[tuple[str | None, Rule]]:
    for item in grants.everywhere:
        yield None, item
    for place, rules in grants.iter_namespaced_rules(OWN, openshift=True):
        for rule in rules:
            yield place, rule
