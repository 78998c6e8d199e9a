"""`transom status`: the status of hosts, rollouts and settings; what is not ready comes first."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom import __version__
from transom.cli.cluster import add_context_option, describe_server, run_with_client
from transom.cli.completion import complete_part, complete_status_arguments
from transom.cli.findings import Source
from transom.cli.messages import print_to_stderr
from transom.cli.options import Output, parse_duration_option, with_option_groups
from transom.cli.output import ExitCode, Format, exit_when_stopped, fail, get_columns, print_data, print_lines
from transom.cli.stopping import mark_stop_reported

if TYPE_CHECKING:
    from transom.cli.observation import ListQuery, QueryResults
    from transom.diagnosis.overview import Overview
    from transom.diagnosis.snapshot import ReadFailure
    from transom.kube.client import Client
    from transom.pods.outdated_pods import OutdatedWorkload


@with_option_groups
def status(
    source: Source,
    about: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[host NAME...]",
            help="Show all details of one host, or with --wait, the hosts to wait for.",
            autocompletion=complete_status_arguments,
        ),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Include WindowsInstances in namespaces that the operator ignores.")
    ] = False,
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="LABELS", help="Select WindowsInstances by labels: env=prod.")
    ] = "",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Watch until Ctrl-C: a live table on a terminal, otherwise changes only.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all hosts, or the named ones, have the current settings.")
    ] = False,
    waited: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="PART",
            autocompletion=complete_part,
            help="With --wait: wait only for operator, settings, hosts, webhook, clusters or pods. Repeatable. "
            "[default: all but pods]",
        ),
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="Timeout for --wait: 30s, 5m, 1h.")] = "5m",
    output: Output = Format.TEXT,
) -> None:
    """Show the status of hosts, rollouts and settings.

    The command shows the operator, the rollout, and settings and hosts with their reason and next step, first those that are
    not ready. It also shows clusters, CAs that expire soon, and pods older than the settings. With -f, it shows the last
    known state of the hosts of a directory, without connecting to them. `status host NAME` shows all details of one host.

    --wait waits until the operator runs, every host that is not paused has the current settings, and pods and workload
    clusters get them. It then shows the status. `status host NAME... --wait` waits for these hosts. A halted rollout ends
    the wait.
    """
    if watch and (output is not Format.TEXT or source.filename or about):
        fail("--watch is for text, and for a cluster: `kubectl get windowsinstances -A -w -o json` gives objects")
    if wait and (watch or source.filename):
        fail(f"--wait is for a cluster, and {'not with --watch' if watch else 'no host is waited for with -f'}")
    if waited and not wait:
        fail("--for says what --wait waits for: add --wait")
    seconds = parse_duration_option("--timeout", timeout)
    namespace = None if all_namespaces else source.effective_namespace
    if about and (about[0] != "host" or len(about) == 1 or (len(about) > 2 and not wait)):
        fail(f"{' '.join(about)}: {_suggest_arguments(about)}")
    if wait:
        _wait_until_ready(source, (about or [])[1:], _list_queries(source, namespace, selector), waited or [], seconds, output)
    elif about:
        _print_host_details(source, about[1], output)
    elif source.filename:
        from transom.cli.host_records import read_recorded_overview

        _print_overview(read_recorded_overview(source, selector), output)
    elif watch:
        from transom.cli.status_watch import watch_status

        try:
            run_with_client(
                source,
                lambda client: watch_status(
                    client, _list_queries(source, namespace, selector), source.effective_namespace, source.context
                ),
            )
        except KeyboardInterrupt:
            raise SystemExit(ExitCode.INTERRUPTED) from None
    else:
        overview_data = run_with_client(source, lambda client: _read_overview(client, source, namespace, selector))
        _print_overview(overview_data, output, source.context)
        if not overview_data.objects and not overview_data.unread:
            print_to_stderr(
                f"transom: {overview_data.server}: no EgressProxy, and no WindowsInstance in namespace "
                f"{source.effective_namespace} (-A: in all)"
            )


def _wait_until_ready(
    source: Source, names: list[str], queries: "tuple[ListQuery, ...]", conditions: list[str], seconds: float, output: Format
) -> None:
    """Wait, then show the status, and end the command with 1 where something is missing."""
    import msgspec

    from transom.cli.status_wait import StatusWait, iter_missing_lines
    from transom.diagnosis.unready_items import ALL_HOSTS, SOME_HOSTS, Part, WaitCriteria

    try:
        parts = tuple(map(Part, conditions))
    except ValueError:
        fail(f"--for {' '.join(conditions)}: must be {', '.join(Part)}")
    patterns = tuple(part for name in names for part in name.split(",") if part)
    labels = next((item.labels for item in queries if item.labels), "")
    wanted = WaitCriteria(parts or (SOME_HOSTS if patterns or labels else ALL_HOSTS), patterns, labels)
    with exit_when_stopped("before anything was read"):
        outcome = run_with_client(
            source, lambda client: StatusWait(client, queries, source.effective_namespace, wanted).run(seconds), reports=True
        )
    if outcome.status is not None:
        if output is not Format.TEXT:
            print_data(msgspec.to_builtins(outcome.status) | {"missing": outcome.missing}, output)
        else:
            _print_overview(outcome.status, output, source.context)
    if outcome.is_ready:
        return
    for line in iter_missing_lines(outcome.missing):
        print_to_stderr(f"transom: {add_context_option(line, source.context)}")
    if outcome.stopped:
        mark_stop_reported()
        fail("stopped waiting", ExitCode.INTERRUPTED)
    fail(add_context_option(outcome.why, source.context), ExitCode.NOT_DONE)


def _list_queries(source: Source, namespace: str | None, selector: str) -> "tuple[ListQuery, ...]":
    from transom.cli.observation import list_status_queries

    return list_status_queries(source.effective_namespace, namespace, selector)


def _suggest_arguments(arguments: list[str]) -> str:
    """Return what was probably meant by arguments that are not `host NAME`."""
    if all(Path(item).exists() for item in arguments):
        return f"did you mean {' '.join(f'-f {item}' for item in arguments)}?"
    if len(arguments) == 1 and arguments[0] != "host":
        return f"did you mean `transom status host {arguments[0]}`?"
    return "use `transom status`, `transom status host NAME`, or with --wait several names"


def _print_overview(overview_data: "Overview", output: Format, context: str | None = None) -> None:
    import msgspec

    from transom.cli.status_table import iter_status_lines

    if output is not Format.TEXT:
        rows = tuple(msgspec.structs.replace(obj, next=add_context_option(obj.next, context)) for obj in overview_data.objects)
        print_data(msgspec.structs.replace(overview_data, objects=rows), output)
        return
    lines = iter_status_lines(
        overview_data, datetime.now(UTC), get_columns(sys.stdout), hint=lambda text: add_context_option(text, context)
    )
    print_lines(*(line.text for line in lines))


async def _read_overview(client: "Client", source: Source, namespace: str | None, selector: str) -> "Overview":
    import msgspec

    from transom.cli.observation import build_observed, refresh_stale_objects, run_queries, with_missing_rights
    from transom.diagnosis.overview import build_overview, needs_lease_recheck
    from transom.diagnosis.snapshot import ReadFailure

    answers_read = await run_queries(client, _list_queries(source, namespace, selector))
    _require_definitions(answers_read)
    pods = await _find_outdated_pods(client, source.effective_namespace)
    seen = build_observed(answers_read, describe_server(client.connection), source.effective_namespace, datetime.now(UTC))
    rights = await with_missing_rights(client, seen)
    # a user without the right to review others sees it in `transom doctor`
    seen = msgspec.structs.replace(rights, unread=seen.unread)
    if needs_lease_recheck(seen):
        seen = await refresh_stale_objects(client, seen)
    made = build_overview(seen, version=__version__)
    if isinstance(pods, ReadFailure):
        return msgspec.structs.replace(made, unread=(*made.unread, pods))
    return msgspec.structs.replace(made, pods=pods)


def _require_definitions(answers: "QueryResults") -> None:
    from transom.sources.api_server import DefinitionsMissing
    from transom.sources.objects import Objects

    if answers.undefined:
        raise DefinitionsMissing(answers.undefined, Objects())


async def _find_outdated_pods(client: "Client", namespace: str) -> "tuple[OutdatedWorkload, ...] | ReadFailure":
    """Return the pods that are older than the settings, or why that is unknown."""
    from transom.diagnosis.snapshot import ReadFailure
    from transom.kube.errors import NotFound, StatusError
    from transom.sources.api_server import HashKeyUnread, list_outdated_pods

    what = "pods older than the settings"
    try:
        return tuple(await list_outdated_pods(client, namespace, datetime.now(UTC)))
    except NotFound:
        return ()
    except (StatusError, HashKeyUnread) as error:
        return ReadFailure(what, str(error))


def _print_host_details(source: Source, name: str, output: Format) -> None:
    import msgspec

    from transom.cli.host_details import iter_detail_lines, read_cluster_details, read_directory_details

    story = (
        read_directory_details(source, name)
        if source.filename
        else run_with_client(source, lambda client: read_cluster_details(client, source.effective_namespace, name))
    )
    host = msgspec.structs.replace(story.host, next=add_context_option(story.host.next, source.context))
    waits = tuple(add_context_option(wait, source.context) for wait in story.waits)
    story = msgspec.structs.replace(story, host=host, waits=waits)
    if output is not Format.TEXT:
        print_data(story, output)
    else:
        print_lines(*iter_detail_lines(story, get_columns(sys.stdout)))
