"""Write docs/how-no-proxy-is-read.md from the profiles: `uv run python tests/proxy/clients/page.py`."""

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.proxy.clients import corpus
from tests.support.repository import DOCS

from transom.proxy.clients.aliases import ALIASES
from transom.proxy.clients.client_table import CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.clients.harms import NO_PROXY_CLIENTS, find_harms
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
    "np-07796": ("LWP gets the URL as bytes and converts them to another name; the profile keeps the name (URI/_server.pm)."),
}
"""Why the profiles miss a measured case, by the case's id."""

# heading, list, URL that the writer wants to bypass (or must not); `x` in a heading is corp.example
NAME_FORMS = (
    ("`x` → x", "corp.example", "http://corp.example/"),
    ("`x` → a.x", "corp.example", "http://a.corp.example/"),
    ("`x` → notx", "corp.example", "http://notcorp.example/"),
    ("`.x` → a.x", ".corp.example", "http://a.corp.example/"),
    ("`.x` → x", ".corp.example", "http://corp.example/"),
    ("`.x` → notx", ".corp.example", "http://notcorp.example/"),
    ("`*.x` → a.x", "*.corp.example", "http://a.corp.example/"),
    ("`*.x` → x", "*.corp.example", "http://corp.example/"),
    ("`*` → x", "*", "http://corp.example/"),
    ("`y,*` → x", "y.example,*", "http://corp.example/"),
    ("`x.` → x", "corp.example.", "http://corp.example/"),
    ("`X` → x", "CORP.EXAMPLE", "http://corp.example/"),
    ("`x:8080` → x:8080", "corp.example:8080", "http://corp.example:8080/"),
    ("`x:443` → https://x", "corp.example:443", "https://corp.example/"),
)
ADDRESS_FORMS = (
    ("`10.0.0.0/8` → 10.1.2.3", "10.0.0.0/8", "http://10.1.2.3/"),
    ("`fd00::/8` → fd00::1", "fd00::/8", "http://[fd00::1]/"),
    ("`10.1.2.3` → 10.1.2.3", "10.1.2.3", "http://10.1.2.3/"),
    ("`10.*` → 10.1.2.3", "10.*", "http://10.1.2.3/"),
    ("`2.3` → 10.1.2.3", "2.3", "http://10.1.2.3/"),
    ("`fd00::1` → fd00::1", "fd00::1", "http://[fd00::1]/"),
    ("`[fd00::1]` → fd00::1", "[fd00::1]", "http://[fd00::1]/"),
    ("`y, x` → x", "y.example, corp.example", "http://corp.example/"),
    ("`x ,y` → x", "corp.example ,y.example", "http://corp.example/"),
    ("`y x` → x", "y.example corp.example", "http://corp.example/"),
    ("`y,,z` → x", "y.example,,z.example", "http://corp.example/"),
    ("not set → localhost", None, "http://localhost/"),
    ("not set → 169.254.169.254", None, "http://169.254.169.254/"),
)
SAFE_LIST = (
    "localhost",
    "127.0.0.1",
    "::1",
    ".svc",
    ".cluster.local",
    "kubernetes.default.svc",
    "10.96.0.0/16",
    "10.244.0.0/16",
    "10.0.0.0/16",
    "api.prod.example",
    "169.254.169.254",
    "corp.example",
    ".corp.example",
)
"""What the page gives to copy; `test_page` holds that `lint` has no error and no warning for it, and that no client fails."""

# what people write, with what to write; the first of several is evaluated
MISTAKES = (
    (
        "A wildcard: `*.corp.example`, `192.168.*`",
        "*.corp.example",
        "http://a.corp.example/",
        "`.corp.example`, `192.168.0.0/16`",
    ),
    ("Spaces after commas, or `;`: `.svc, .corp.example`", ".svc, .corp.example", "http://a.corp.example/", "only a comma"),
    ("An empty item: `.svc,,.corp.example`", ".svc,,.corp.example", "http://a.corp.example/", "one comma"),
    ("A port, a scheme or a path: `corp.example:8080`", "corp.example:8080", "http://corp.example:8080/", "only the name"),
    ("Brackets or IPv6 networks for pods: `[fd00::1]`", "[fd00::1]", "http://[fd00::1]/", "`fd00::1`, single addresses"),
)
_SIGN = {True: "Y", False: "-", None: "E"}

_INTRO = """# How NO_PROXY is read

This page describes how each program reads `NO_PROXY`, the list of hosts that it reaches without the proxy, and which list works
for all programs. There is no standard: with the same list, one program uses the proxy, another bypasses it, and a third fails.

## A list to copy

```
{safe}
```

Replace `10.96.0.0/16`, `10.244.0.0/16` and `10.0.0.0/16` with the networks of your Services, pods and nodes,
`api.prod.example` with the host of your API server, and `corp.example` with your domain. Set both `NO_PROXY` and `no_proxy` to
this value. Also set `HTTP_PROXY` and `HTTPS_PROXY` in both cases.

- Write a domain twice, without and with a dot: `corp.example,.corp.example`.
- List important hosts and addresses one by one: some programs read neither domains nor networks.
- A network covers no names: `10.0.0.0/8` does not cover `db.corp.example`, regardless of its address. Only Ruby and fabric8
  resolve names first.
- Use IPv6 networks in the lists of nodes, but not in those of pods: httpx (the HTTP library of many Python SDKs) fails on them.
- The AWS SDK for Java reads only `*.corp.example`, on which fabric8 fails. List its hosts one by one.
- The kubernetes package for Python reads no list in versions 34 and 35. Use version 36 or later.

## The five most common mistakes

|mistake|effect|write instead|
|-|-|-|
{mistakes}

## Check a list

Three commands use these rules, without a cluster:

- `transom no-proxy lint LIST` shows the items that programs misread, and suggests a better spelling. It exits with 1 if the
  list has an error or a warning.
- `transom no-proxy lint --env FILE` checks a whole environment (`env | transom no-proxy lint --env -`).
- `transom no-proxy check URL --no-proxy LIST` shows which programs bypass the proxy for a URL, and which item decides.

Terms on this page:

- A *client* is a program or a library that reads the list. Its *profile* describes how, as data in
  `src/transom/proxy/clients/`.
- An *item* is the part of the list between two commas.
- To *bypass* the proxy is to connect to the host directly.

`uv run python tests/proxy/clients/page.py` generates this page from the profiles, and a test fails if it is outdated.
"""

_LINT = """## What `transom no-proxy lint` reports

|level|meaning|exit code|
|-|-|-|
|error|a client fails on the item, every request bypasses the proxy, no client reads it, or `transom validate` refuses it|1|
|warning|a client of a node ignores the item or covers too many hosts, and another spelling is safer|1|
|note|no spelling is safer, or the other spelling can cover more than intended|0|

`lint` evaluates the clients of Windows and Linux nodes, or those of `--client` (`--client all` for every client). It always
names clients that fail. One failure is only a note: httpx fails on IPv6 networks, which the lists of nodes require.

`lint` assumes that you intend an item to cover these hosts:

- `corp.example`: this name and all names below it. Known hosts (`api.…`, `….svc`) cover only themselves.
- `.corp.example` and `*.corp.example`: the names below it.
- An address: itself. A network: all addresses in it.
- An item with a port: the same, but only at that port.

`lint` suggests another spelling only if `validate` accepts it and no client fails on it. For every client except the two that
read regular expressions (the SDKs of AWS and Azure for Java), the spelling must also meet these conditions:

- No intended URL stops bypassing the proxy. Exception: if a client fails on the item, `lint` prefers a spelling that some
  clients do not read (`::1` for `[::1]`).
- No other URL begins to bypass the proxy. Exception: for some clients, `corp.example` or `.corp.example` also covers
  notcorp.example (columns 3 and 6 above), and no spelling covers only the name.
- No client fails that did not fail before.

`lint` counts corp.example as part of `.corp.example` and `*.corp.example`, because curl covers it with every spelling. A test
(`tests/proxy/clients/test_lint.py`) checks these conditions for all clients with random URLs. If no spelling is better, `lint`
reports that.
"""


_PROFILES = """## The rules of each client

"Applies to" lists the versions that read the list in this way, and "measured" the versions whose requests were measured.
`From:` names the source file or the description of the rules. `http:`, `https:` and `list:` list the environment variables in
the order in which the client looks for them.
"""


def render() -> str:
    """The page."""
    named = [client for client in CLIENTS.values() if client.language == "NO_PROXY"]
    intro = _INTRO.format(safe=",".join(SAFE_LIST), mistakes="\n".join(_mistake(*row) for row in MISTAKES))
    parts = [intro, _reads_like(), _versions(named), *_matrices(named), _LINT, _PROFILES]
    parts += [_profile(client) for client in CLIENTS.values()]
    parts.append(_accuracy())
    return "\n".join(parts)


def _mistake(written: str, value: str, url: str, instead: str) -> str:
    """Return a row of the table of mistakes: clients that ignore it, that fail, and that always bypass the proxy."""
    decisions = {name: decide(CLIENTS[name], url, value).bypass for name in NO_PROXY_CLIENTS}
    harms = find_harms(value)
    told = [f"{harm.effect}: {', '.join(harm.clients)}" for harm in harms]
    told = [
        text.replace("everything: ", "every request bypasses: ").replace("fails: ", "every request fails: ") for text in told
    ]
    ignored = [name for name, bypass in decisions.items() if bypass is False]
    if ignored:
        told.append(f"ignored by {len(ignored)} of {len(decisions)} clients ({', '.join(ignored[:4])}, …)")
    return f"|{written}|{'; '.join(told)}|{instead}|"


def _reads_like() -> str:
    lines = [
        "## Other programs",
        "",
        "These programs read the list in the same way as a client on this page. `--client` accepts their names as well.",
        "",
        "|program|name|reads as|evidence|",
        "|-|-|-|-|",
        *(f"|{alias.title}|{name}|{alias.row}|{alias.evidence}|" for name, alias in ALIASES.items()),
    ]
    return "\n".join(lines) + "\n"


def _versions(clients: list[ClientProfile]) -> str:
    lines = [
        "## Versions of each client",
        "",
        "The behavior of versions between two rows is unknown, unless the row states that their source was compared.",
        "",
        "The last column shows what the client does with a percent-encoded user name and password in the URL of the proxy. "
        "Only letters and digits work for every client.",
        "",
        "|client|program|applies to|measured|unknown|escapes in credentials|",
        "|-|-|-|-|-|-|",
    ]
    for client in clients:
        measured = client.measured or "not measured"
        lines.append(
            f"|{client.name}|{client.title}|{client.versions or client.measured}|{measured}|"
            f"{client.unknown}|{client.credentials.value}|"
        )
    return "\n".join(lines) + "\n"


def _matrices(clients: list[ClientProfile]) -> list[str]:
    return [
        "## Spellings that each client reads\n\n"
        "Each column is a list and a requested host, where `x` is corp.example. With a proxy for http and https, the client "
        "bypasses the proxy (`Y`), uses it (`-`), or fails (`E`).\n",
        _matrix("Names", NAME_FORMS, clients),
        _matrix("Addresses and separators", ADDRESS_FORMS, clients),
    ]


def _matrix(title: str, forms: Sequence[tuple[str, str | None, str]], clients: list[ClientProfile]) -> str:
    lines = [
        f"### {title}\n",
        "|client|" + "|".join(heading for heading, _, _ in forms) + "|",
        "|-" * (len(forms) + 1) + "|",
    ]
    for client in clients:
        signs = (_SIGN[decide(client, url, value).bypass] for _, value, url in forms)
        lines.append(f"|{client.name}|" + "|".join(signs) + "|")
    return "\n".join(lines) + "\n"


def _profile(client: ClientProfile) -> str:
    versions = f" Applies to {client.versions};" if client.versions else ""
    measured = f"measured: {client.measured}." if client.measured else "not measured."
    measured = f" {measured}" if versions else f" {measured[0].upper()}{measured[1:]}"
    lines = [f"### {client.name}\n", f"{client.title}.{versions}{measured} From: {client.evidence}.\n"]
    if client.note:
        lines.append(f"{client.note}\n")
    if client.source is Source.ENVIRONMENT:
        lines += _variables(client)
    else:
        lines.append(f"- list: {client.source.value}")
    if client.language != "NO_PROXY":
        lines.append(f"- language: {client.language}")
    if client.default_items:
        lines.append(f"- added to a list that is not empty, and used if no list is set: `{client.default_items}`")
    for implicit in client.implicit:
        hosts = [*implicit.names, *(f"names below {name}" for name in implicit.below), *implicit.networks]
        hosts += [f"hosts that begin with {prefix}" for prefix in implicit.prefixes]
        lines.append(
            f"- bypass without an item: {', '.join(hosts)}" + ("; not with `<-loopback>`" if implicit.removable else "")
        )
    if client.resolves:
        lines.append("- resolves names, and compares their addresses with the items")
    if client.slash_is_everything:
        lines.append("- with a `/` anywhere in the list, every request bypasses the proxy")
    if client.source is not Source.NOWHERE and not client.passes:
        lines.append("- reads no list")
    if client.unknown:
        lines.append(f"- unknown: {client.unknown}")
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
    if variables.every_first:
        lines.append("- the last two are read first")
    lines.append(f"- an empty variable is {variables.empty.value}")
    if variables.empty_list is not None and variables.empty_list is not variables.empty:
        lines.append(f"- an empty list is {variables.empty_list.value}")
    if variables.any_case:
        lines.append("- names of variables in any other case are read as well, last")
    if variables.cgi is not Cgi.NO_CARE:
        lines.append(f"- in CGI programs: {variables.cgi.value}")
    if variables.schemeless is not Schemeless.READ:
        lines.append(f"- a proxy without `http://`: {variables.schemeless.value}")
    return lines


def _first(names: tuple[str, ...]) -> str:
    return ", then ".join(f"`{name}`" for name in names) or "none"


def _pass(walk: ProfilePass) -> list[str]:
    splitting, names, addresses = walk.splitting, walk.names, walk.addresses
    how = f"matched by `{splitting.pattern}`" if splitting.pattern else f"separated by `{splitting.separator}`"
    trim = {None: "leading and trailing spaces dropped", "": "leading and trailing spaces kept"}.get(
        splitting.trim, "leading and trailing spaces and tabs dropped"
    )
    if splitting.pattern or splitting.empty_covers_all:
        trim = ""
    lines = ["items: " + ", ".join(filter(None, (how, trim, *_splitting_notes(splitting))))]
    if walk.items is not Items.HOSTS:
        lines.append(f"items are {walk.items.value}")
    lines.append(f"`*` covers every host: {walk.star.value}")
    if walk.fails_when_reached:
        lines.append("the client fails only if no item before it covers the host")
    if walk.items is Items.HOSTS or walk.items in (Items.CHROMIUM, Items.OVERRIDES):
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
        notes.append("all spaces dropped first")
    if splitting.blank_ends_list:
        notes.append("a space inside an item ends the list")
    if splitting.empty_covers_root:
        notes.append("an empty item covers hosts with a dot at the end")
    if splitting.empty_covers_all:
        last = "even at the end" if splitting.last_empty_counts else "but not at the end"
        notes.append(f"an empty item covers every host, {last}")
    return notes


def _name_notes(names: Names) -> list[str]:
    notes = []
    if names.glob is not Glob.NONE:
        notes.append(f"wildcards: {names.glob.value}")
    if not names.lower:
        notes.append("an item with capitals matches no host in lower case")
    if not names.root:
        notes.append("the item `.` covers nothing")
    if not names.empty_labels:
        notes.append("dots at the ends of an item, and double dots, do not count")
    elif names.trailing_dots.value != "kept":
        notes.append(f"dots at the end of an item: {names.trailing_dots.value}")
    return notes


def _address_notes(addresses: Addresses) -> list[str]:
    notes = [f"networks: {_cidr(addresses.cidr)}"]
    if addresses.values:
        notes.append("addresses compared by value: " + ", ".join(f"IPv{family}" for family in addresses.values))
    if addresses.as_names:
        notes.append("addresses also compared as names: " + ", ".join(f"IPv{family}" for family in addresses.as_names))
    if addresses.zones:
        notes.append("the zone of an item (`fe80::1%eth0`) is dropped")
    if addresses.mapped:
        notes.append("an IPv4-mapped IPv6 address is the IPv4 address")
    if addresses.mapped_networks:
        notes.append("networks of IPv4 contain IPv4-mapped IPv6 addresses, and networks of IPv6 can contain IPv4 addresses")
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
    if not cidr.host_bits:
        text += "; bits beyond the length make it invalid"
    if cidr.brackets:
        text += "; `[fd00::]/8` is read"
    if cidr.clamped:
        text += "; too many bits mean all"
    return text + {0: "", None: "; `/0` is invalid", -1: "; `/0` means only that address"}[cidr.zero]


def _host_notes(walk: ProfilePass) -> list[str]:
    host = walk.host
    brackets = ", in brackets" if host.brackets else ""
    lines = [f"host of the URL: IPv4 {host.ipv4.value}; IPv6 {host.ipv6.value}{brackets}; non-ASCII names {host.idn.value}"]
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
        "## Accuracy of the profiles\n",
        f"Of {len(rows):,} measured cases, of two measurements, the profiles predict {corpus.share(rows):.2f} %: "
        f"{corpus.share(seen):.2f} % of the "
        f"{len(seen):,} cases that were known when the profiles were written, and {corpus.share(held):.2f} % of the "
        f"{len(held):,} cases that were set aside before. The least accurate profile predicts {worst[1]:.1f} % ({worst[0]}).",
        "At the first evaluation of the cases set aside, the share was 99.67 %: three were wrong. Two profiles were then "
        "corrected from the clients' sources (the spaces that curl accepts, and the case of hosts in LWP).\n",
        "All wrong predictions and their causes:\n",
        "|client|list|URL|measured|cause|",
        "|-|-|-|-|-|",
    ]
    for row in corpus.misses(rows):
        measured = {True: "bypass", False: "proxy", None: "fails"}[row["bypass"]]
        lines.append(f"|{row['client']}|`{row.get('no_proxy')}`|{row['url']}|{measured}|{MISS_CAUSES[row['id']]}|")
    lines.append(
        "\nSome profiles are not measured: WinINet and WinHTTP follow third-party descriptions, Chromium its unit tests,"
        " Fluent Bit "
        "and .NET 11 their source. .NET on Windows, PowerShell and other programs on Windows are not measured either. On"
        " Windows, "
        "names of variables are case-insensitive, so the order of lower and upper case does not matter."
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
