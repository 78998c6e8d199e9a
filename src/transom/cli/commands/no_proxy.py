"""`transom no-proxy`: what programs make of a NO_PROXY list."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from transom.cli.credential_masks import apply_masks, list_item_masks, mask_passwords, mask_url, mask_url_in_text
from transom.cli.examples import build_epilog
from transom.cli.findings import Source, load_and_examine, print_findings
from transom.cli.messages import print_to_stderr
from transom.cli.options import Output as MergeOutput
from transom.cli.options import with_option_groups
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines
from transom.common.counting import format_count
from transom.common.regular_files import MAX_BYTES, read_regular_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from transom.proxy.clients.decision import Decision
    from transom.proxy.clients.lint import LintFinding
    from transom.proxy.clients.profile import ClientProfile
    from transom.proxy.merging import MergedNoProxy

no_proxy = typer.Typer(name="no-proxy", help="Check, lint and merge NO_PROXY lists.", no_args_is_help=True)

_ALL: Final = "all"
Output = Annotated[Format, typer.Option("--output", "-o", help="The output format.")]


def _complete_client(incomplete: str) -> list[str]:
    """Return the clients whose names start with a string, for the shell."""
    from transom.proxy.clients.aliases import ALIASES
    from transom.proxy.clients.client_table import CLIENTS

    return [name for name in (_ALL, *CLIENTS, *ALIASES) if name.startswith(incomplete)]


Clients = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        metavar="NAME",
        help="Client to evaluate, or `all`. Repeatable.",
        autocompletion=_complete_client,
    ),
]
EnvironmentFile = Annotated[
    str | None,
    typer.Option("--env", metavar="FILE", help="Read a whole environment, as printed by `env`, or - for standard input."),
]


@no_proxy.command(epilog=build_epilog("no-proxy merge"))
@with_option_groups
def merge(
    source: Source,
    output: MergeOutput = Format.TEXT,
    reasons: Annotated[bool, typer.Option("--reasons", help="Print each item on its own line, with its reason.")] = False,
) -> None:
    """Print the merged NO_PROXY of each cluster.

    The first list is for the cluster of the manifests, followed by each Cluster API Cluster. JSON and YAML contain the
    reason for each item.
    """
    from transom.proxy.settings import merge_no_proxy

    objects, examined = load_and_examine(source)
    # the hosts have no part in the lists
    findings = [finding for finding in examined.findings if not finding.object.startswith("WindowsInstance/")]
    print_findings(findings, sys.stderr)
    errors = sum(finding.severity == "error" for finding in findings)
    if errors:
        fail(f"the settings have {format_count(errors, 'error')}", ExitCode.INVALID)
    settings = examined.settings
    lists: list[dict[str, Any]] = []
    if objects.proxy or any(item.metadata.name == "cluster" for item in objects.egress_proxies):
        lists.append(_build_merged_entry(None, merge_no_proxy(objects, settings.networks)))
    for cluster in objects.clusters:
        name = f"{cluster.metadata.namespace}/{cluster.metadata.name}"
        lists.append(_build_merged_entry(name, merge_no_proxy(objects, settings.networks, cluster)))
    if output is not Format.TEXT:
        print_data(lists, output)
        return
    if not lists:
        print_to_stderr("transom: no list: neither settings nor a Cluster exist")
    for entry in lists:
        label = f"{entry['cluster'] or 'this cluster'}: " if len(lists) > 1 else ""
        print_lines(f"{label}{entry['noProxy']}")
        if reasons:
            print_lines(*(f"  {item['item']}: {item['reason']}" for item in entry["items"]))


def _build_merged_entry(cluster: str | None, merged: "MergedNoProxy") -> dict[str, Any]:
    items = [{"item": item, "reason": reason} for item, reason in merged.reasons.items()]
    return {"cluster": cluster, "noProxy": merged.text, "items": items}


@no_proxy.command(epilog=build_epilog("no-proxy check"))
def check(
    urls: Annotated[list[str] | None, typer.Argument(metavar="URL…", help="URL of a request.")] = None,
    value: Annotated[str | None, typer.Option("--no-proxy", metavar="LIST", help="The value of NO_PROXY.")] = None,
    client: Clients = None,
    cases: Annotated[
        str | None,
        typer.Option("--cases", metavar="FILE", help="Evaluate cases, one JSON object per line, or - for standard input."),
    ] = None,
    environment: EnvironmentFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Show which clients bypass the proxy for a URL, and why.

    The command assumes that both proxies are set, in upper and lower case, and NO_PROXY as --no-proxy says. With --env, only
    the variables of FILE are set. It does not read your own environment. Clients with another list syntax (wininet,
    java-nonproxyhosts, …) read LIST in that syntax.
    """
    if cases is not None:
        if urls or value is not None or client or environment is not None:
            fail("--cases brings its own URLs, lists and clients: leave out URL, --no-proxy, --env and --client")
        _check_cases(cases)
        return
    if environment is not None and value is not None:
        fail("--env has the list in it: leave out --no-proxy")
    if not urls:
        fail("no URL: write transom no-proxy check URL --no-proxy LIST, or --cases FILE")
    from transom.proxy.clients.decision import decide

    for url in urls:
        _check_url(url)
    rows = _find_client_profiles(client or [_ALL])
    if value is None and environment is None:
        own = next(
            (f'; --no-proxy "${name}" is that of this shell' for name in ("NO_PROXY", "no_proxy") if name in os.environ), ""
        )
        fail(f"no list: give --no-proxy LIST ('' is the empty list), or --env FILE{own}")
    variables = None if environment is None else _read_environment(environment)
    masks = list_item_masks([value or "", *(variables or {}).values()])
    decisions = [_mask_decision(decide(row, url, value, environment=variables), masks) for url in urls for row in rows]
    if output is not Format.TEXT:
        from msgspec import to_builtins

        titles = {row.name: row.full_title for row in rows}
        print_data([{**to_builtins(decision), "versions": titles[decision.client]} for decision in decisions], output)
        return
    from transom.cli.no_proxy_tables import print_decisions, print_decisions_by_family

    if client:
        print_decisions(decisions, rows)
    else:
        print_decisions_by_family(decisions, rows)


@no_proxy.command(epilog=build_epilog("no-proxy lint"))
def lint(
    value: Annotated[str | None, typer.Argument(metavar="LIST", help="The value of NO_PROXY.")] = None,
    client: Clients = None,
    environment: EnvironmentFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Show items of NO_PROXY that some clients misread.

    An error is an item on which a client fails, that bypasses the proxy for everything, that no client reads, or that
    `validate` rejects. A warning has a safer form, and a note does not. The command evaluates the clients of a Windows or
    Linux node, or those of --client, and always names clients that fail. With --env, it also evaluates the variables. The
    exit code is 1 for errors and warnings.
    """
    from transom.proxy.clients.client_table import CLIENTS, NODE_CLIENTS
    from transom.proxy.clients.environment_lint import lint_environment
    from transom.proxy.clients.lint import lint as find

    if (value is None) == (environment is None):
        fail("give either a list or --env: transom no-proxy lint LIST, or transom no-proxy lint --env FILE")
    names = tuple(_find_no_proxy_readers(client)) if client else NODE_CLIENTS
    variables = {"NO_PROXY": value or ""} if environment is None else _read_environment(environment)
    unmasked = find(value or "", names) if environment is None else lint_environment(variables, names)
    masks = list_item_masks(variables[name] for name in ("NO_PROXY", "no_proxy") if name in variables)
    findings = [_mask_finding(finding, masks) for finding in unmasked]
    titles = {name: CLIENTS[name].full_title for finding in findings for name in finding.clients}
    if output is not Format.TEXT:
        from msgspec import to_builtins

        print_data(
            [{**to_builtins(finding), "versions": {name: titles[name] for name in finding.clients}} for finding in findings],
            output,
        )
    else:
        from transom.cli.no_proxy_tables import print_lint

        print_lint(findings, names, titles)
    if any(finding.level != "note" for finding in findings):
        raise SystemExit(ExitCode.NOT_DONE)


def _check_url(url: str) -> None:
    """End the command if a URL is not valid; the message shows no credentials."""
    from transom.proxy.clients.urls import parse_url

    shown = mask_url(url)
    for text in dict.fromkeys((shown, url)):
        try:
            parse_url(text)
        except ValueError as error:
            # of the URL itself, a message may repeat a part of the password
            fail(str(error) if text == shown else f"{shown!r}: write / ? # \\ in a password as %2F %3F %23 %5C")


def _mask_decision(decision: "Decision", masks: "Mapping[str, str]") -> "Decision":
    """Return a decision without the userinfo of its URL, and without passwords of the list."""
    import msgspec

    return msgspec.structs.replace(
        decision,
        url=mask_url(decision.url),
        item=None if decision.item is None else apply_masks(decision.item, masks),
        reason=mask_url_in_text(apply_masks(decision.reason, masks), decision.url),
    )


def _mask_finding(finding: "LintFinding", masks: "Mapping[str, str]") -> "LintFinding":
    """Return a finding without passwords of the list."""
    import msgspec

    if finding.item not in masks:
        return finding
    instead = None if finding.instead is None else apply_masks(finding.instead, masks)
    problem = apply_masks(finding.problem, masks)
    return msgspec.structs.replace(finding, item=masks[finding.item], problem=problem, instead=instead)


def _find_client_profiles(names: "Iterable[str]") -> "list[ClientProfile]":
    """Return the profiles of the named clients; an unknown name ends the command with the nearest ones."""
    from transom.proxy.clients.aliases import find_client
    from transom.proxy.clients.client_table import CLIENTS

    rows: dict[str, ClientProfile] = {}
    for name in names:
        row = find_client(name)
        if name == _ALL:
            rows |= {row.name: row for row in CLIENTS.values() if row.language == "NO_PROXY"}
        elif row is None:
            _fail_unknown_client(name)
        else:
            rows[name] = row
    return list(rows.values())


def _find_no_proxy_readers(names: "Iterable[str]") -> list[str]:
    """Return the rows that read NO_PROXY for the named clients; end the command if one does not read such a list."""
    from transom.proxy.clients.aliases import ALIASES
    from transom.proxy.clients.harms import NO_PROXY_CLIENTS

    readers: dict[str, None] = {}
    for name in names:
        if name == _ALL:
            readers |= dict.fromkeys(NO_PROXY_CLIENTS)
            continue
        row = _find_client_profiles([name])[0]
        own = ALIASES[name].row if name in ALIASES else name
        if row.language != "NO_PROXY":
            fail(f"client {name} reads {row.language}, not NO_PROXY: lint has no rules for it")
        if own not in NO_PROXY_CLIENTS:
            fail(f"client {name} reads no NO_PROXY at all: no form of an item helps it")
        readers[own] = None
    return list(readers)


def _read_environment(path: str) -> dict[str, str]:
    from transom.proxy.clients.environment_lint import read_environment_text

    return read_environment_text(b"\n".join(_read_lines(path)).decode("utf-8", "surrogateescape"))


def _suggest_client_names(name: str) -> str:
    import difflib

    from transom.proxy.clients.aliases import ALIASES
    from transom.proxy.clients.client_table import CLIENTS

    lowered = name.lower()
    near = [
        close_match
        for names in (CLIENTS, ALIASES)
        for close_match in difflib.get_close_matches(lowered, names, n=4, cutoff=0.5)
    ]
    near = near or [client for client in (*CLIENTS, *ALIASES) if lowered and (lowered[:3] in client or client in lowered)]
    return f"the nearest are {', '.join(near[:4])}" if near else f"the clients are {', '.join(CLIENTS)}"


def _fail_unknown_client(name: str, where: str = "") -> NoReturn:
    fail(f"{where}unknown client {name!r}; {_suggest_client_names(name)}")


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
            _fail_unknown_client(error.name, where)
        except ValueError as error:
            fail(mask_passwords(f"{where}{error}"))
        # the fields of a line are returned as they are: a program compares them
        shown = _mask_decision(decision, list_item_masks([case.no_proxy or "", *(case.env or {}).values()]))
        answers.append(msgspec.json.encode({**fields, "bypass": shown.bypass, "item": shown.item, "reason": shown.reason}))
    sys.stdout.flush()
    sys.stdout.buffer.write(b"".join(answer + b"\n" for answer in answers))
    sys.stdout.buffer.flush()


def _read_lines(path: str) -> list[bytes]:
    if path == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            fail(f"-: the standard input has more than {MAX_BYTES:,} bytes")
        return data.split(b"\n")
    try:
        return read_regular_file(path).split(b"\n")
    except OSError as error:
        fail(f"{path}: {error.strerror or error}")
