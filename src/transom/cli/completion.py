"""What the shell completes: names that a kubeconfig and its cluster know. What cannot be read completes to nothing.

`main` is the program `kubectl_complete-transom`: what kubectl completes behind `kubectl transom`. kubectl runs it with the
words of the line, the last one incomplete or empty. It reads a line for each completion, with a tab before its description, as
fish does (k8s.io/kubectl v0.36.3, pkg/cmd/plugin/plugin_completion.go).
"""

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

import typer

from transom.cli.options import NAMESPACE, log_to_stderr

if TYPE_CHECKING:
    from transom.kube.client import Client

_SECONDS = 2.0
"""A shell waits no longer for a cluster."""


def complete_context(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the contexts of the kubeconfig."""
    from transom.kube.errors import ConfigurationError
    from transom.kube.kubeconfig import read_kubeconfig

    with contextlib.suppress(ConfigurationError):
        return _filter_by_prefix(read_kubeconfig(ctx.params.get("kubeconfig")).contexts, incomplete)
    return []


def complete_namespace(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the namespaces of the cluster."""

    async def list_names(client: "Client") -> list[str]:
        from transom.kube.resources import NAMESPACES

        return [item.metadata.name for item in (await client.list_objects(NAMESPACES)).items]

    return _filter_by_prefix(_query_cluster(ctx, list_names), incomplete)


def complete_instance(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the WindowsInstances of the files that the user named, else of the cluster."""
    own = ctx.params.get("namespace") or ctx.params.get("transom_namespace") or NAMESPACE
    if paths := ctx.params.get("filename"):
        from transom.sources.directory import load_objects

        return _filter_by_prefix(
            (windows_instance.name for windows_instance in load_objects(paths, own).windows_instances), incomplete
        )

    async def list_names(client: "Client") -> list[str]:
        from transom.kube.resources import WINDOWS_INSTANCES

        return [item.metadata.name for item in (await client.list_objects(WINDOWS_INSTANCES, own)).items]

    return _filter_by_prefix(_query_cluster(ctx, list_names), incomplete)


def complete_status_arguments(ctx: typer.Context, incomplete: str) -> list[str]:
    """`host`, and behind it the name of one."""
    return complete_instance(ctx, incomplete) if ctx.params.get("about") else _filter_by_prefix(("host",), incomplete)


def complete_part(incomplete: str) -> list[str]:
    """Return the parts of the status for which `--wait` can wait."""
    from transom.diagnosis.unready_items import Part

    return _filter_by_prefix(Part, incomplete)


def complete_provider(incomplete: str) -> list[str]:
    """Return the providers of Cluster API."""
    from transom.capi.providers.provider_table import PROVIDERS

    return _filter_by_prefix(PROVIDERS, incomplete)


def _query_cluster(ctx: typer.Context, list_names: "Callable[[Client], Coroutine[Any, Any, list[str]]]") -> list[str]:
    import asyncio

    from transom.kube.client import Client
    from transom.kube.connection import connect
    from transom.kube.errors import ApiError, ConfigurationError

    # an unconfigured log goes to stdout, and a shell would complete its lines
    log_to_stderr(verbose=False)

    async def run() -> list[str]:
        connection = connect(ctx.params.get("kubeconfig"), ctx.params.get("context"))
        try:
            async with asyncio.timeout(_SECONDS):
                return await list_names(Client(connection))
        finally:
            await connection.close()

    try:
        return asyncio.run(run())
    except (ApiError, ConfigurationError, TimeoutError):
        return []


def _filter_by_prefix(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def main() -> None:
    """Print the completions of the arguments; none: the shell completes files."""
    os.environ["_TRANSOM_COMPLETE"] = "complete_fish"
    os.environ["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    os.environ["_TYPER_COMPLETE_ARGS"] = shlex.join(["transom", *sys.argv[1:]])
    from transom.cli.program import build_program

    build_program()(prog_name="transom")
