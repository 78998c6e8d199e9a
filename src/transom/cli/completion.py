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

from transom.cli.options import NAMESPACE

if TYPE_CHECKING:
    from transom.kube.client import Client

_SECONDS = 2.0
"""A shell waits no longer for a cluster."""


def contexts(ctx: typer.Context, incomplete: str) -> list[str]:
    """The contexts of the kubeconfig."""
    from transom.kube import ConfigurationError
    from transom.kube.kubeconfig import read

    with contextlib.suppress(ConfigurationError):
        return _beginning(read(ctx.params.get("kubeconfig")).contexts, incomplete)
    return []


def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    """The namespaces of the cluster."""

    async def names(client: "Client") -> list[str]:
        from transom.kube.resources import NAMESPACES

        return [one.metadata.name for one in (await client.list_objects(NAMESPACES)).items]

    return _beginning(_asked(ctx, names), incomplete)


def instances(ctx: typer.Context, incomplete: str) -> list[str]:
    """The WindowsInstances of the files that are named, else of the cluster."""
    own = ctx.params.get("namespace") or ctx.params.get("transom_namespace") or NAMESPACE
    if paths := ctx.params.get("filename"):
        from transom.sources.directory import load

        return _beginning((one.name for one in load(paths, own).windows_instances), incomplete)

    async def names(client: "Client") -> list[str]:
        from transom.kube.resources import WINDOWS_INSTANCES

        return [one.metadata.name for one in (await client.list_objects(WINDOWS_INSTANCES, own)).items]

    return _beginning(_asked(ctx, names), incomplete)


def about_status(ctx: typer.Context, incomplete: str) -> list[str]:
    """`host`, and behind it the name of one."""
    return instances(ctx, incomplete) if ctx.params.get("about") else _beginning(("host",), incomplete)


def providers(incomplete: str) -> list[str]:
    """The providers of Cluster API."""
    from transom.capi.providers import PROVIDERS

    return _beginning(PROVIDERS, incomplete)


def _asked(ctx: typer.Context, names: "Callable[[Client], Coroutine[Any, Any, list[str]]]") -> list[str]:
    import asyncio

    from transom.kube import ApiError, ConfigurationError
    from transom.kube.client import Client
    from transom.kube.connection import connect

    async def run() -> list[str]:
        connection = connect(ctx.params.get("kubeconfig"), ctx.params.get("context"))
        try:
            async with asyncio.timeout(_SECONDS):
                return await names(Client(connection))
        finally:
            await connection.close()

    try:
        return asyncio.run(run())
    except (ApiError, ConfigurationError, TimeoutError):
        return []


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def main() -> None:
    """Print the completions of the arguments; none: the shell completes files."""
    os.environ["_TRANSOM_COMPLETE"] = "complete_fish"
    os.environ["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    os.environ["_TYPER_COMPLETE_ARGS"] = shlex.join(["transom", *sys.argv[1:]])
    from transom.cli.program import program

    program()(prog_name="transom")
