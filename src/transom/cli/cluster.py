"""The cluster that a command asks, as options; and what comes of it: an answer, or a sentence that names the server."""

import re
import shlex
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from transom.cli.completion import complete_context, complete_namespace
from transom.cli.options import NAMESPACE, OptionGroup, Verbose, log_to_stderr
from transom.cli.output import ExitCode, fail
from transom.cli.stopping import run_until_stopped

if TYPE_CHECKING:
    from transom.kube.client import Client
    from transom.kube.connection import Connection
    from transom.kube.errors import ApiError

_T = TypeVar("_T")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="The context of the kubeconfig. [default: the current one]",
        autocompletion=complete_context,
    ),
]


def parse_namespace(value: str) -> str:
    """Parse the value of `--namespace`, a DNS-1123 label (RFC 1123). Raises BadParameter."""
    if not _LABEL.fullmatch(value):
        raise typer.BadParameter(f"{value!r} is not a valid namespace: lower-case letters, digits and -, at most 63")
    return value


def _parse_optional_namespace(value: str | None) -> str | None:
    return None if value is None else parse_namespace(value)


class ClusterOptions(OptionGroup, frozen=True):
    """Which cluster, by whose credentials, and where in it."""

    kubeconfig: Annotated[
        str | None,
        typer.Option("--kubeconfig", metavar="FILE", help="The kubeconfig. [default: KUBECONFIG, else ~/.kube/config]"),
    ] = None
    context: Context = None
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NS",
            help="The namespace of the objects, and of objects in files without one. [default: Transom's own]",
            callback=_parse_optional_namespace,
            autocompletion=complete_namespace,
        ),
    ] = None
    transom_namespace: Annotated[
        str,
        typer.Option(
            "--transom-namespace",
            metavar="NS",
            envvar="TRANSOM_NAMESPACE",
            help="Transom's own namespace.",
            callback=parse_namespace,
            autocompletion=complete_namespace,
        ),
    ] = NAMESPACE

    verbose: Verbose = False

    @property
    def effective_namespace(self) -> str:
        """Where Transom's objects are, for commands that ask for no others."""
        return self.namespace or self.transom_namespace

    @property
    def named_namespaces(self) -> tuple[tuple[str, str], ...]:
        """Namespaces that the user named, each with its flag: they must exist."""
        own = None if self.transom_namespace == NAMESPACE else self.transom_namespace
        flags = (("-n", self.namespace), ("--transom-namespace", own))
        return tuple((flag, name) for flag, name in flags if name)


def run_with_client(
    cluster: ClusterOptions,
    work: "Callable[[Client], Coroutine[Any, Any, _T]]",
    *,
    no_cluster_hint: str = "",
    failure_code: ExitCode = ExitCode.NOT_DONE,
    reports: bool = False,
) -> _T:
    """Return the result of `work`; if the API server does not answer, the command ends and names the server.

    `no_cluster_hint` is what a person without a cluster can do, `failure_code` the exit code where the server does not
    answer. With `reports` nothing but the report of what was done is left then.
    """
    from transom.kube.client import Client
    from transom.kube.connection import connect
    from transom.kube.errors import ApiError, ConfigurationError

    log_to_stderr(verbose=cluster.verbose)

    async def run_work() -> _T:
        connection = connect(cluster.kubeconfig, cluster.context)
        client = Client(connection)
        try:
            for flag, name in cluster.named_namespaces:
                if not await _has_namespace(client, name):
                    fail(
                        f"{flag} {name}: {describe_server(connection)} has no such namespace: name another "
                        f"(`kubectl get namespaces` "
                        "lists them), or another --context",
                        ExitCode.NOT_DONE,
                    )
            return await work(client)
        except ApiError as error:
            fail(_format_error(error, connection), failure_code)
        finally:
            await connection.close()

    try:
        return run_until_stopped(run_work(), reports=reports)
    except ConfigurationError as error:
        fail(f"{error}{no_cluster_hint}", ExitCode.INVALID)


async def _has_namespace(client: "Client", namespace: str) -> bool:
    """Return True if the namespace exists, or if Transom may not ask."""
    from transom.kube.errors import NotFound, StatusError
    from transom.kube.resources import NAMESPACES

    try:
        await client.get(NAMESPACES, namespace)
    except NotFound:
        return False
    except StatusError as error:
        if error.code != 403:
            raise
    return True


def describe_server(connection: "Connection") -> str:
    """Return the server and how it was found."""
    named = f"context {connection.context} of {connection.source}" if connection.context else connection.source
    return f"{connection.server} ({named})"


_FOR_CLUSTER: Final = re.compile(
    r"\b(transom (?:adopt|doctor|forget|pause|reconcile|restart|resume|status|validate)|kubectl)\b(?![^`;]*--context)"
)
"""A command of a hint that acts on a cluster, where it names none."""


def add_context_option(hint: str, context: str | None) -> str:
    """Return a hint whose commands name the requested context: the current one may be another cluster."""
    if not context:
        return hint
    named = shlex.quote(context)
    return _FOR_CLUSTER.sub(
        lambda item: f"{item[1]} --context {named}", hint.replace("--context CONTEXT", f"--context {named}")
    )


def _format_error(error: "ApiError", connection: "Connection") -> str:
    """Return what failed, where, and what to do."""
    from transom.kube.errors import ConnectionFailed, StatusError, UnreadableObject

    message, where = str(error), describe_server(connection)
    if isinstance(error, ConnectionFailed | UnreadableObject):
        return (
            f"{where}: {message}. Is this the cluster that is meant, and can it be reached from here? --context names another"
        )
    if isinstance(error, StatusError) and error.code == 401:
        return f"{where}: {message}: the credentials are not taken, or have expired: log in again, or name another --context"
    if isinstance(error, StatusError) and error.code == 403:
        return f"{where}: {message}: ask for this right, or name another --context"
    return f"{where}: {message}"
