"""`transom status`: what is where in a cluster, and what waits and why; what is not ready comes first."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from transom import __version__
from transom.cli.cluster import ask, place
from transom.cli.completion import about_status
from transom.cli.findings import Source
from transom.cli.options import Output, grouped
from transom.cli.output import ExitCode, Format, columns_of, fail, print_data, print_lines, tell

if TYPE_CHECKING:
    from transom.cli.observation import Answers, Asked
    from transom.diagnosis import Unread
    from transom.diagnosis.overview import Overview
    from transom.kube.client import Client
    from transom.pods.outdated import Outdated


@grouped
def status(
    source: Source,
    about: Annotated[
        list[str] | None,
        typer.Argument(metavar="[host NAME]", help="The whole story of one host.", autocompletion=about_status),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Also WindowsInstances of namespaces that nobody looks at.")
    ] = False,
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="LABELS", help="Only WindowsInstances with these labels: env=prod.")
    ] = "",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on until Ctrl-C: a live table on a terminal, else what changes.")
    ] = False,
    output: Output = Format.TEXT,
) -> None:
    """Say what is where, and what waits and why.

    Of the operator, the rollout, the settings and the hosts, what is not ready comes first, each with its reason and what there
    is to do. Then come clusters, CAs that end soon, and pods that are older than the settings. With -f it says what was last
    known of the hosts of a directory, from here, and asks nobody. `status host NAME` is the whole story of one host.
    """
    if watch and (output is not Format.TEXT or source.filename or about):
        fail("--watch is for text, and for a cluster: `kubectl get windowsinstances -A -w -o json` gives objects")
    namespace = None if all_namespaces else source.own
    if about:
        if len(about) != 2 or about[0] != "host":
            fail(f"{' '.join(about)}: there is `transom status`, and `transom status host NAME`")
        _tell_story(source, about[1], output)
    elif source.filename:
        from transom.cli.last_known import last_known

        _print(last_known(source, selector), output)
    elif watch:
        from transom.cli.status_watch import follow

        try:
            ask(source, lambda client: follow(client, _asked(source, namespace, selector), source.own))
        except KeyboardInterrupt:
            raise SystemExit(ExitCode.INTERRUPTED) from None
    else:
        found = ask(source, lambda client: _look(client, source, namespace, selector))
        _print(found, output)
        if not found.objects and not found.unread:
            tell(f"transom: {found.server}: no EgressProxy, and no WindowsInstance in namespace {source.own} (-A: in all)")


def _asked(source: Source, namespace: str | None, selector: str) -> "tuple[Asked, ...]":
    from transom.cli.observation import asked_for_status

    return asked_for_status(source.own, namespace, selector)


def _print(found: "Overview", output: Format) -> None:
    from transom.cli.status_table import screen

    if output is not Format.TEXT:
        print_data(found, output)
        return
    print_lines(*(line.text for line in screen(found, datetime.now(UTC), columns_of(sys.stdout))))


async def _look(client: "Client", source: Source, namespace: str | None, selector: str) -> "Overview":
    import msgspec

    from transom.cli.observation import answers, observed
    from transom.diagnosis import Unread
    from transom.diagnosis.overview import overview

    found = await answers(client, _asked(source, namespace, selector))
    _insist_on_definitions(found)
    pods = await _older_pods(client, source.own)
    made = overview(observed(found, place(client.connection), source.own, datetime.now(UTC)), version=__version__)
    if isinstance(pods, Unread):
        return msgspec.structs.replace(made, unread=(*made.unread, pods))
    return msgspec.structs.replace(made, pods=pods)


def _insist_on_definitions(found: "Answers") -> None:
    from transom.sources.api_server import DefinitionsMissing
    from transom.sources.objects import Objects

    if found.undefined:
        raise DefinitionsMissing(found.undefined, Objects())


async def _older_pods(client: "Client", namespace: str) -> "tuple[Outdated, ...] | Unread":
    """The pods that are older than the settings, or why that is not known."""
    from transom.diagnosis import Unread
    from transom.kube import NotFound, StatusError
    from transom.sources.api_server import HashKeyUnread, older_pods

    what = "pods older than the settings"
    try:
        return tuple(await older_pods(client, namespace, datetime.now(UTC)))
    except NotFound:
        return ()
    except (StatusError, HashKeyUnread) as error:
        return Unread(what, str(error))


def _tell_story(source: Source, name: str, output: Format) -> None:
    from transom.cli.host_story import of_cluster, of_directory, story_lines

    story = of_directory(source, name) if source.filename else ask(source, lambda client: of_cluster(client, source.own, name))
    if output is not Format.TEXT:
        print_data(story, output)
    else:
        print_lines(*story_lines(story, columns_of(sys.stdout)))
