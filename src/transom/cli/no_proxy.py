"""`transom no-proxy`: what programs make of a NO_PROXY list."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from transom.cli.examples import epilog
from transom.cli.findings import Source, counted, examine, print_findings
from transom.cli.options import Output as MergeOutput
from transom.cli.options import grouped
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines, tell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transom.proxy.merging import MergedNoProxy

no_proxy = typer.Typer(name="no-proxy", help="What programs make of a NO_PROXY list.", no_args_is_help=True)

Output = Annotated[Format, typer.Option("--output", "-o", help="How to write it.")]


def _beginning(incomplete: str) -> list[str]:
    """The clients whose names begin so, for the shell."""
    from transom.proxy.clients import CLIENTS

    return [name for name in CLIENTS if name.startswith(incomplete)]


Clients = Annotated[
    list[str] | None,
    typer.Option(
        "--client", metavar="NAME", help="Judge for this client; may be given several times.", autocompletion=_beginning
    ),
]


@no_proxy.command(epilog=epilog("no-proxy merge"))
@grouped
def merge(
    source: Source,
    output: MergeOutput = Format.TEXT,
    reasons: Annotated[bool, typer.Option("--reasons", help="Each item on a line of its own, with its reason.")] = False,
) -> None:
    """Print the merged NO_PROXY of each cluster.

    First of the cluster that the manifests describe, then of each Cluster API Cluster. As JSON or YAML with each item's reason.
    """
    from transom.proxy.settings import merged_no_proxy

    objects, examined = examine(source)
    # the hosts have no part in the lists
    findings = [finding for finding in examined.findings if not finding.object.startswith("WindowsInstance/")]
    print_findings(findings, sys.stderr)
    errors = sum(finding.severity == "error" for finding in findings)
    if errors:
        fail(f"the settings have {counted(errors, 'error')}", ExitCode.INVALID)
    settings = examined.settings
    lists: list[dict[str, Any]] = []
    if objects.proxy or any(item.metadata.name == "cluster" for item in objects.egress_proxies):
        lists.append(_entry(None, merged_no_proxy(objects, settings.networks)))
    for cluster in objects.clusters:
        name = f"{cluster.metadata.namespace}/{cluster.metadata.name}"
        lists.append(_entry(name, merged_no_proxy(objects, settings.networks, cluster)))
    if output is not Format.TEXT:
        print_data(lists, output)
        return
    if not lists:
        tell("transom: there are no settings, and no Cluster: no list")
    for entry in lists:
        label = f"{entry['cluster'] or 'this cluster'}: " if len(lists) > 1 else ""
        print_lines(f"{label}{entry['noProxy']}")
        if reasons:
            print_lines(*(f"  {one['item']}: {one['reason']}" for one in entry["items"]))


def _entry(cluster: str | None, merged: "MergedNoProxy") -> dict[str, Any]:
    items = [{"item": item, "reason": reason} for item, reason in merged.reasons.items()]
    return {"cluster": cluster, "noProxy": merged.text, "items": items}


@no_proxy.command(epilog=epilog("no-proxy check"))
def check(
    urls: Annotated[list[str] | None, typer.Argument(metavar="URL…", help="Where a program wants to go.")] = None,
    value: Annotated[str | None, typer.Option("--no-proxy", metavar="LIST", help="The value of NO_PROXY.")] = None,
    client: Clients = None,
    cases: Annotated[
        str | None,
        typer.Option("--cases", metavar="FILE", help="Decide cases, one JSON object a line; - is stdin."),
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Say who bypasses the proxy for a URL, and which item decides.

    Both proxies are taken to be set. Without --no-proxy, NO_PROXY is not set. A client of another list language (wininet,
    java-nonproxyhosts, …) reads LIST in that language.
    """
    if cases is not None:
        if urls or value is not None or client:
            fail("--cases brings its own URLs, lists and clients: leave out URL, --no-proxy and --client")
        _check_cases(cases)
        return
    if not urls:
        fail("no URL: write transom no-proxy check URL --no-proxy LIST, or --cases FILE")
    from transom.proxy.clients import CLIENTS
    from transom.proxy.clients.decision import decide
    from transom.proxy.clients.urls import parse_url

    for url in urls:
        try:
            parse_url(url)
        except ValueError as error:
            fail(str(error))
    names = _known(client) if client else [name for name, row in CLIENTS.items() if row.language == "NO_PROXY"]
    decisions = [decide(CLIENTS[name], url, value) for url in urls for name in names]
    if output is not Format.TEXT:
        print_data(decisions, output)
        return
    from transom.cli.no_proxy_tables import print_decisions, print_families

    if client:
        print_decisions(decisions)
    else:
        print_families(decisions)


@no_proxy.command(epilog=epilog("no-proxy lint"))
def lint(
    value: Annotated[str, typer.Argument(metavar="LIST", help="The value of NO_PROXY.")],
    client: Clients = None,
    output: Output = Format.TEXT,
) -> None:
    """Name the items that some clients misread.

    Items that some clients ignore, over-match or choke on, each with the form to use instead. Judges for the clients of a
    Windows or a Linux node, or for those given with --client. Ends with 1 when it finds something.
    """
    from transom.proxy.clients import NODE_CLIENTS
    from transom.proxy.clients.lint import lint as find

    names = tuple(_known(client)) if client else NODE_CLIENTS
    _refuse_other_languages(names)
    findings = find(value, names)
    if output is not Format.TEXT:
        print_data(findings, output)
    else:
        from transom.cli.no_proxy_tables import print_lint

        print_lint(findings, names)
    if findings:
        raise SystemExit(ExitCode.NOT_DONE)


def _known(names: "Iterable[str]") -> list[str]:
    """The clients named; an unknown one ends the command with the nearest names."""
    from transom.proxy.clients import CLIENTS

    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in CLIENTS:
            _fail_unknown(name)
    return wanted


def _nearest(name: str) -> str:
    import difflib

    from transom.proxy.clients import CLIENTS

    lowered = name.lower()
    near = difflib.get_close_matches(lowered, CLIENTS, n=4, cutoff=0.5) or [
        known for known in CLIENTS if lowered and (lowered[:3] in known or known in lowered)
    ]
    return f"the nearest are {', '.join(near[:4])}" if near else f"the clients are {', '.join(CLIENTS)}"


def _fail_unknown(name: str, where: str = "") -> NoReturn:
    fail(f"{where}unknown client {name!r}; {_nearest(name)}")


def _refuse_other_languages(names: "Iterable[str]") -> None:
    from transom.proxy.clients import CLIENTS
    from transom.proxy.clients.lint import NO_PROXY_CLIENTS

    for name in names:
        if CLIENTS[name].language != "NO_PROXY":
            fail(f"client {name} reads {CLIENTS[name].language}, not NO_PROXY: lint has no rules for it")
        if name not in NO_PROXY_CLIENTS:
            fail(f"client {name} reads no NO_PROXY at all: no form of an item helps it")


def _check_cases(path: str) -> None:
    import msgspec

    from transom.proxy.clients.cases import UnknownClientError, decide_case, read_case

    answers: list[bytes] = []
    for number, line in enumerate(_read_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path} line {number}: "
        try:
            fields, case = read_case(line)
            decision = decide_case(case)
        except UnknownClientError as error:
            _fail_unknown(error.name, where)
        except ValueError as error:
            fail(f"{where}{error}")
        answers.append(
            msgspec.json.encode({**fields, "bypass": decision.bypass, "item": decision.item, "reason": decision.reason})
        )
    sys.stdout.flush()
    sys.stdout.buffer.write(b"".join(answer + b"\n" for answer in answers))
    sys.stdout.buffer.flush()


def _read_lines(path: str) -> list[bytes]:
    if path == "-":
        return sys.stdin.buffer.read().split(b"\n")
    from pathlib import Path

    try:
        return Path(path).read_bytes().split(b"\n")
    except OSError as error:
        fail(f"{path}: {error.strerror or error}")
