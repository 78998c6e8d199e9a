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


def page_with_rights(page: str) -> str:
    """A page with the tables between their marks written anew."""
    return _between(_between(page, BEGIN, rights(), END), VERIFY_BEGIN, rights_of_verify_cluster(), VERIFY_END)


def _between(page: str, begin: str, table: str, end: str) -> str:
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{table}\n{end}{after}"


def rights_of_verify_cluster() -> str:
    """The table of who runs `transom verify cluster`, as Markdown."""
    rows = "".join(f"{row}\n" for row, _ in _rows({EVERY: Grants(everywhere=roles.VERIFY_CLUSTER_RULES)}))
    return f"{_HEAD}\n{_RULE}\n{rows}"


def rights() -> str:
    """Both tables, as Markdown; resources are named as `kubectl auth can-i --list` names them."""
    operator = "".join(f"{row} {who} |\n" for row, who in _rows({EVERY: ALWAYS, **GRANTS}))
    webhook = "".join(f"{row}\n" for row, _ in _rows({EVERY: admission.WEBHOOK}))
    return (
        f"ServiceAccount `{NAME}`:\n\n{_HEAD} controllers |\n{_RULE}---|\n{operator}\n"
        f"ServiceAccount `{admission.NAME}`:\n\n{_HEAD}\n{_RULE}\n{webhook}"
    )


def resources(one: Rule) -> Iterator[str]:
    """`pods/eviction`, `machines.cluster.x-k8s.io`, `egressproxies.transom.dev/status`."""
    for resource in one.resources:
        name, slash, subresource = resource.partition("/")
        yield f"{name}{'.' * bool(one.group)}{one.group}{slash}{subresource}"


def _rows(parts: Mapping[str, Grants]) -> Iterator[tuple[str, str]]:
    """Each row without its last cell, and that: who needs it."""
    found: dict[tuple[str | None, str, str], tuple[list[str], list[str]]] = {}
    for part, grants in parts.items():
        for place, one in _placed(grants):
            what = "<br>".join(f"`{resource}`" for resource in resources(one))
            named = f" named {', '.join(map(_name, one.names))}" if one.names else ""
            verbs = ", ".join(f"`{verb}`" for verb in one.verbs)
            whys, names = found.setdefault((place, what + named, verbs), ([], []))
            whys.append(one.why)
            names.append(part)
    for (place, what, verbs), (whys, names) in found.items():
        where = _PLACES.get(place, f"`{place}`, `--openshift`")
        who = EVERY if EVERY in names else ", ".join(f"`{name}`" for name in dict.fromkeys(names))
        yield f"| {where} | {what} | {verbs} | {'; '.join(dict.fromkeys(whys))} |", who


def _name(name: str) -> str:
    return "as its own" if name == OWN else f"`{name}`"


def _placed(grants: Grants) -> Iterator[tuple[str | None, Rule]]:
    for one in grants.everywhere:
        yield None, one
    for place, rules in grants.placed(OWN, openshift=True):
        for one in rules:
            yield place, one
