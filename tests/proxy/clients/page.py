"""Writes docs/how-no-proxy-is-read.md from the profiles: `uv run python tests/proxy/clients/page.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.proxy.clients import corpus
from tests.support.repository import DOCS

from transom.proxy.clients import CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.clients.profile import (
    Addresses,
    Cgi,
    Cidr,
    ClientProfile,
    Glob,
    Items,
    Names,
    ProfilePass,
    Schemeless,
    Source,
    Splitting,
)

PAGE = DOCS / "how-no-proxy-is-read.md"

MISS_CAUSES = {
    "np-07796": (
        "LWP gets the URL as bytes and turns them into another name than the one meant; the profile takes the name as it is "
        "(URI/_server.pm)."
    ),
}
"""Why the profiles miss a measured case, by the case's id."""

# heading, list, URL that the writer wants to bypass (or must not)
FORMS = (
    ("`corp.example` → corp.example", "corp.example", "http://corp.example/"),
    ("`corp.example` → a.corp.example", "corp.example", "http://a.corp.example/"),
    ("`corp.example` → notcorp.example", "corp.example", "http://notcorp.example/"),
    ("`.corp.example` → a.corp.example", ".corp.example", "http://a.corp.example/"),
    ("`.corp.example` → corp.example", ".corp.example", "http://corp.example/"),
    ("`*.corp.example` → a.corp.example", "*.corp.example", "http://a.corp.example/"),
    ("`*.corp.example` → corp.example", "*.corp.example", "http://corp.example/"),
    ("`*` → corp.example", "*", "http://corp.example/"),
    ("`x.example,*` → corp.example", "x.example,*", "http://corp.example/"),
    ("`10.0.0.0/8` → 10.1.2.3", "10.0.0.0/8", "http://10.1.2.3/"),
    ("`2001:db8::/32` → [2001:db8::1]", "2001:db8::/32", "http://[2001:db8::1]/"),
    ("`10.1.2.3` → 10.1.2.3", "10.1.2.3", "http://10.1.2.3/"),
    ("`2.3` → 10.1.2.3", "2.3", "http://10.1.2.3/"),
    ("`2001:db8::1` → [2001:db8::1]", "2001:db8::1", "http://[2001:db8::1]/"),
    ("`[2001:db8::1]` → [2001:db8::1]", "[2001:db8::1]", "http://[2001:db8::1]/"),
    ("`corp.example:8080` → corp.example:8080", "corp.example:8080", "http://corp.example:8080/"),
    ("`corp.example:443` → https://corp.example", "corp.example:443", "https://corp.example/"),
    ("`corp.example.` → corp.example", "corp.example.", "http://corp.example/"),
    ("`CORP.EXAMPLE` → corp.example", "CORP.EXAMPLE", "http://corp.example/"),
    ("`x.example, corp.example` → corp.example", "x.example, corp.example", "http://corp.example/"),
    ("`corp.example ,x.example` → corp.example", "corp.example ,x.example", "http://corp.example/"),
    ("`x.example corp.example` → corp.example", "x.example corp.example", "http://corp.example/"),
    ("`x.example,,y.example` → corp.example", "x.example,,y.example", "http://corp.example/"),
    ("nothing set → localhost", None, "http://localhost/"),
    ("nothing set → 169.254.169.254", None, "http://169.254.169.254/"),
)
_SIGN = {True: "Y", False: "-", None: "E"}

_INTRO = """# How NO_PROXY is read

`NO_PROXY` lists the hosts that a program reaches without the proxy. No standard says how the list is read, so each program
has rules of its own. The same list can send one program to the proxy and another past it. This page has the rules of each
program, and says which spelling most of them read as meant.

In a hurry:

- For a domain write it twice, without and with a dot: `corp.example,.corp.example`. No single spelling works everywhere;
  these two reach the most.
- For addresses write networks: `10.0.0.0/8`. Some programs know none. They need the addresses, or the names, one by one.
- Separate items by a comma alone, without blanks. `;` and `|` separate nothing.
- A network covers no name: `10.0.0.0/8` does not cover `db.corp.example`, whatever its address is. Only Ruby looks names up
  first.
- Set both `no_proxy` and `NO_PROXY`, to the same value. The same goes for `http_proxy` and `https_proxy`.

Two commands know these rules. Neither needs a cluster:

- `transom no-proxy check URL --no-proxy LIST` says which programs bypass the proxy for a URL, and which item decides.
- `transom no-proxy lint LIST` names the items that some programs misread, and proposes a better spelling.

Words of this page: a *client* is a program or a library that reads the list. Its *profile* is what it does with the list,
as data in `src/transom/proxy/clients/`. An *item* is what stands between two commas. To *bypass* is to go to the host
directly.

This page is generated: `uv run python tests/proxy/clients/page.py` writes it from the profiles, and a test fails when it is
out of date.
"""

_LINT = """## What `transom no-proxy lint` proposes

First it reads what an item means:

- `corp.example` means that name and all names below it;
- `.corp.example` and `*.corp.example` mean the names below it;
- an address means itself, a network all addresses in it;
- an item with a port means the same at that port alone.

Then it looks for another spelling. It proposes one only if three things hold for every client:

- Nothing is lost: a URL that was meant, and that bypasses the proxy today, still does.
- Nothing is added: a URL that was not meant does not bypass the proxy because of the new spelling. One exception: apt, LWP
  and requests before 2.34 take `corp.example` to cover notcorp.example, too, and have no way to write the name alone.
- Nothing breaks: no client fails that did not fail before.

corp.example itself counts as part of `.corp.example` and `*.corp.example` here, since no spelling keeps curl from covering
it. A test (`tests/proxy/clients/test_lint.py`) holds this for all clients with random URLs. Where no spelling is better,
lint says so.
"""


_PROFILES = """## The rules of each client

After `From:` stands the source file, or the description, that the rules were read from. `http:`, `https:` and `list:` name
the environment variables in the order in which the client looks for them.
"""


def render() -> str:
    """The page."""
    named = [client for client in CLIENTS.values() if client.language == "NO_PROXY"]
    parts = [_INTRO, _matrix(named), _LINT, _PROFILES]
    parts += [_profile(client) for client in CLIENTS.values()]
    parts.append(_accuracy())
    return "\n".join(parts)


def _matrix(clients: list[ClientProfile]) -> str:
    lines = [
        "## Which spelling reaches which client\n",
        "Each column is a list, and a host that is asked for:\n",
        "|column|list|host|",
        "|-|-|-|",
        *(f"|{number}|{'|'.join(heading.split(' → '))}|" for number, (heading, _, _) in enumerate(FORMS, start=1)),
        "",
        "What each client does, where a proxy is set for http and https: `Y` bypasses it, `-` goes through it, `E` fails.\n",
        "|client|" + "|".join(str(number) for number in range(1, len(FORMS) + 1)) + "|",
        "|-" * (len(FORMS) + 1) + "|",
    ]
    for client in clients:
        signs = (_SIGN[decide(client, url, value).bypass] for _, value, url in FORMS)
        lines.append(f"|{client.name}|" + "|".join(signs) + "|")
    return "\n".join(lines) + "\n"


def _profile(client: ClientProfile) -> str:
    lines = [f"### {client.name}\n", f"{client.title}. From: {client.evidence}.\n"]
    if client.note:
        lines.append(f"{client.note}\n")
    if client.source is Source.ENVIRONMENT:
        lines += _variables(client)
    else:
        lines.append(f"- list: {client.source.value}")
    if client.language != "NO_PROXY":
        lines.append(f"- language: {client.language}")
    if client.default_items:
        lines.append(f"- added to a list that is not empty, and used when there is none: `{client.default_items}`")
    for implicit in client.implicit:
        hosts = [*implicit.names, *(f"names below {name}" for name in implicit.below), *implicit.networks]
        lines.append(
            f"- bypass without an item: {', '.join(hosts)}" + ("; not with `<-loopback>`" if implicit.removable else "")
        )
    if client.resolves:
        lines.append("- names are resolved, and their addresses compared with the items")
    if client.slash_is_everything:
        lines.append("- a `/` anywhere in the list sends every request direct")
    if client.source is not Source.NOWHERE and not client.passes:
        lines.append("- no list is read")
    for number, walk in enumerate(client.passes, start=1):
        lead = f"pass {number}, " if len(client.passes) > 1 else ""
        lines += [f"- {lead}{text}" for text in _pass(walk)]
    return "\n".join(lines) + "\n"


def _variables(client: ClientProfile) -> list[str]:
    variables = client.variables
    order = f"- http: {_first(variables.http)}; https: {_first(variables.https)}"
    if variables.every:
        order += f"; else {_first(variables.every)}"
    lines = [order + f"; list: {_first(variables.no)}"]
    lines.append(f"- a variable that is empty is {variables.empty.value}")
    if variables.empty_list is not None and variables.empty_list is not variables.empty:
        lines.append(f"- an empty list is {variables.empty_list.value}")
    if variables.any_case:
        lines.append("- names of variables in any other case are read too, last")
    if variables.cgi is not Cgi.NO_CARE:
        lines.append(f"- in CGI programs: {variables.cgi.value}")
    if variables.schemeless is not Schemeless.READ:
        lines.append(f"- a proxy without `http://`: {variables.schemeless.value}")
    return lines


def _first(names: tuple[str, ...]) -> str:
    return ", then ".join(f"`{name}`" for name in names) or "none"


def _pass(walk: ProfilePass) -> list[str]:
    splitting, names, addresses = walk.splitting, walk.names, walk.addresses
    how = f"found by `{splitting.pattern}`" if splitting.pattern else f"separated by `{splitting.separator}`"
    trim = {None: "blanks at their ends dropped", "": "blanks at their ends kept"}.get(
        splitting.trim, "blanks and tabs at their ends dropped"
    )
    if splitting.pattern or splitting.empty_covers_all:
        trim = ""
    lines = ["items: " + ", ".join(filter(None, (how, trim, *_splitting_notes(splitting))))]
    if walk.items is not Items.HOSTS:
        lines.append(f"items are {walk.items.value}")
    lines.append(f"`*`: {walk.star.value}")
    if walk.items is not Items.HTTPX_URLS:
        forms = {"x": names.bare, ".x": names.dotted, "*.x": names.star_dot, "*x": names.star}
        if walk.items is Items.HOSTS:
            lines.append("names: " + "; ".join(f"`{form}` covers {covers.value}" for form, covers in forms.items()))
        lines += _name_notes(names)
        lines.append(f"ports: {walk.ports.value}")
        lines += _address_notes(addresses)
    return lines + _host_notes(walk)


def _splitting_notes(splitting: Splitting) -> list[str]:
    notes = []
    if splitting.drop:
        notes.append("all blanks dropped first")
    if splitting.blank_ends_list:
        notes.append("a blank inside an item ends the list")
    if splitting.empty_covers_root:
        notes.append("an empty item covers hosts with a dot at the end")
    if splitting.empty_covers_all:
        notes.append("an empty item covers every host")
    return notes


def _name_notes(names: Names) -> list[str]:
    notes = []
    if names.glob is not Glob.NONE:
        notes.append(f"wildcards: {names.glob.value}")
    if not names.lower:
        notes.append("an item with capitals matches no host in lower case")
    if not names.empty_labels:
        notes.append("dots at the ends of an item, and double dots, do not count")
    elif names.trailing_dots.value != "kept":
        notes.append(f"dots at the end of an item: {names.trailing_dots.value}")
    return notes


def _address_notes(addresses: Addresses) -> list[str]:
    notes = [f"networks: {_cidr(addresses.cidr)}"]
    if addresses.values:
        notes.append("compared by value: " + ", ".join(f"IPv{family}" for family in addresses.values))
    if addresses.as_names:
        notes.append("compared as names too: " + ", ".join(f"IPv{family}" for family in addresses.as_names))
    if addresses.mapped:
        notes.append("an IPv4-mapped IPv6 address is the IPv4 address")
    if addresses.ranges:
        notes.append("ranges: IPv4, first-last")
    if addresses.one_loopback:
        notes.append("an item for one loopback host covers all loopback hosts")
    return notes


def _cidr(cidr: Cidr | None) -> str:
    if cidr is None:
        return "none"
    text = " and ".join(f"IPv{family}" for family in cidr.families) + f"; bits: {cidr.bits.value}"
    if cidr.loose:
        text += "; short bases (`10.0/8`) are read"
    if cidr.masks:
        text += "; `/255.0.0.0` is read"
    if cidr.clamped:
        text += "; too many bits mean all"
    return text + {0: "", None: "; `/0` is invalid", -1: "; `/0` means that address alone"}[cidr.zero]


def _host_notes(walk: ProfilePass) -> list[str]:
    host = walk.host
    brackets = ", in brackets" if host.brackets else ""
    lines = [
        f"host of the URL: numbers {host.ipv4.value}; IPv6 {host.ipv6.value}{brackets}; names beyond ASCII {host.idn.value}"
    ]
    if host.trailing_dots.value != "kept":
        lines.append(f"dots at the end of the host: {host.trailing_dots.value}")
    if host.userinfo:
        lines.append("`user:password@` counts as part of the host")
    return lines


def _accuracy() -> str:
    rows = corpus.rows()
    held = tuple(row for row in rows if corpus.is_held_out(row))
    seen = tuple(row for row in rows if not corpus.is_held_out(row))
    worst = min(corpus.share_by_client(rows).items(), key=lambda pair: pair[1])
    lines = [
        "## How well this predicts what was measured\n",
        f"Of {len(rows):,} measured cases the profiles predict {corpus.share(rows):.2f} %: {corpus.share(seen):.2f} % of the "
        f"{len(seen):,} that were looked at while they were written, {corpus.share(held):.2f} % of the {len(held):,} that were "
        f"set aside before. The client that is predicted least well has {worst[1]:.1f} % ({worst[0]}).",
        "When those set aside were first evaluated it was 99.67 %: three missed. Two were corrected from the clients' "
        "sources (what curl takes for a blank, that LWP keeps the case of a host).\n",
        "Every miss, and its cause:\n",
        "|client|list|URL|measured|cause|",
        "|-|-|-|-|-|",
    ]
    for row in corpus.misses(rows):
        measured = "bypass" if row["bypass"] else "proxy"
        lines.append(f"|{row['client']}|`{row.get('no_proxy')}`|{row['url']}|{measured}|{MISS_CAUSES[row['id']]}|")
    lines.append(
        "\nWinINet and WinHTTP follow second-hand readings and Chromium its unit tests: nobody has measured them on Windows. "
        "On Windows the names of variables have no case, so orders of lower and upper case collapse there."
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
