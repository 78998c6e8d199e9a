"""The cluster that a command asks, as options; and what comes of it: an answer, or a sentence that names the server."""

import re
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from transom.cli.completion import contexts, namespaces
from transom.cli.options import NAMESPACE, OptionGroup, Verbose, log_to_stderr
from transom.cli.output import ExitCode, fail

if TYPE_CHECKING:
    from transom.kube import ApiError
    from transom.kube.client import Client
    from transom.kube.connection import Connection

_T = TypeVar("_T")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="Its context. [default: the current one]", autocompletion=contexts),
]


def namespace_name(value: str) -> str:
    """The value of `--namespace`, as the API server takes it: a DNS-1123 label (RFC 1123). Raises BadParameter."""
    if not _LABEL.fullmatch(value):
        raise typer.BadParameter(f"{value!r} is no namespace: lower-case letters, digits and -, at most 63")
    return value


def _optional_namespace(value: str | None) -> str | None:
    return None if value is None else namespace_name(value)


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
            help="The namespace of the objects asked for, and of objects in files that name none. [default: Transom's own]",
            callback=_optional_namespace,
            autocompletion=namespaces,
        ),
    ] = None
    transom_namespace: Annotated[
        str,
        typer.Option(
            "--transom-namespace",
            metavar="NS",
            envvar="TRANSOM_NAMESPACE",
            help="Transom's own namespace.",
            callback=namespace_name,
            autocompletion=namespaces,
        ),
    ] = NAMESPACE

    verbose: Verbose = False

    @property
    def own(self) -> str:
        """Where Transom's objects are, for commands that ask for no others."""
        return self.namespace or self.transom_namespace

    @property
    def named_namespaces(self) -> tuple[tuple[str, str], ...]:
        """Namespaces that somebody named, each with its flag: they have to be there."""
        own = None if self.transom_namespace == NAMESPACE else self.transom_namespace
        given = (("-n", self.namespace), ("--transom-namespace", own))
        return tuple((flag, name) for flag, name in given if name)


def ask(
    cluster: ClusterOptions,
    work: "Callable[[Client], Coroutine[Any, Any, _T]]",
    *,
    otherwise: str = "",
    failing: ExitCode = ExitCode.NOT_DONE,
) -> _T:
    """What `work` makes of the answers of the API server; where there are none the command ends and says which was asked.

    `otherwise` is what a person without a cluster can do, `failing` the exit code where the server does not answer.
    """
    import asyncio

    from transom.kube import ApiError, ConfigurationError
    from transom.kube.client import Client
    from transom.kube.connection import connect

    log_to_stderr(verbose=cluster.verbose)

    async def asked() -> _T:
        connection = connect(cluster.kubeconfig, cluster.context)
        client = Client(connection)
        try:
            for flag, name in cluster.named_namespaces:
                if not await _is_there(client, name):
                    fail(
                        f"{flag} {name}: {place(connection)} has no such namespace: name another (`kubectl get namespaces` "
                        "lists them), or another --context",
                        ExitCode.NOT_DONE,
                    )
            return await work(client)
        except ApiError as error:
            fail(_told(error, connection), failing)
        finally:
            await connection.close()

    try:
        return asyncio.run(asked())
    except ConfigurationError as error:
        fail(f"{error}{otherwise}", ExitCode.INVALID)


async def _is_there(client: "Client", namespace: str) -> bool:
    """Whether there is such a namespace; who may not ask is believed."""
    from transom.kube import NotFound, StatusError
    from transom.kube.resources import NAMESPACES

    try:
        await client.get(NAMESPACES, namespace)
    except NotFound:
        return False
    except StatusError as error:
        if error.code != 403:
            raise
    return True


def place(connection: "Connection") -> str:
    """The server that is asked, and how it was found."""
    named = f"context {connection.context} of {connection.source}" if connection.context else connection.source
    return f"{connection.server} ({named})"


def _told(error: "ApiError", connection: "Connection") -> str:
    """What went wrong, where, and what there is to do."""
    from transom.kube import ConnectionFailed, StatusError, UnreadableObject

    told, where = str(error), place(connection)
    if isinstance(error, ConnectionFailed | UnreadableObject):
        return f"{where}: {told}. Is this the cluster that is meant, and can it be reached from here? --context names another"
    if isinstance(error, StatusError) and error.code == 401:
        return f"{where}: {told}: the credentials are not taken, or have expired: log in again, or name another --context"
    if isinstance(error, StatusError) and error.code == 403:
        return f"{where}: {told}: ask for this right, or name another --context"
    return f"{where}: {told}"
