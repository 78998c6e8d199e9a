"""`transom init`: a directory of manifests to start from, by options or by questions."""

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from transom.cli.cluster import namespace_name
from transom.cli.findings import counted, print_findings
from transom.cli.options import NAMESPACE
from transom.cli.output import ExitCode, fail, tell, write_private, yaml_stream

if TYPE_CHECKING:
    from transom.sources.examination import Examined

HOST_KEY: Final = ".simulated-host-key"
"""The file by which a simulated host is the same one each time."""
_PASSWORD: Final = "TRANSOM_PROXY_PASSWORD"  # noqa: S105  # the name of a variable
_GROUP: Final = "transom.dev/v1alpha1"
_EXAMPLE: Final = {
    "machineNetwork": ["10.0.0.0/16"],
    "serviceNetwork": ["10.96.0.0/16"],
    "podNetwork": ["10.244.0.0/16"],
    "internalAPIHost": "api.corp.example",
}
_HEADS: Final = {
    "egress.yaml": "# The egress settings: docs/settings.md has every field.\n",
    "hosts.yaml": "# The Windows hosts: one WindowsInstance for each.\n",
    "ca.yaml": "# The CAs that hosts trust. To rotate one, add the new one beside it and apply; take the old one out later.\n",
    "secrets.yaml": "# The key that opens the hosts, and the proxy's credentials. Not for Git as they stand: see .gitignore.\n",
}


class _Answers(msgspec.Struct):
    """What the directory is made of: None is asked for, or left out. The last fields are texts, not files."""

    proxy: str | None
    no_proxy: str | None
    proxy_user: str | None
    hosts: list[str]
    username: str
    key_file: str | None
    ca_file: str | None
    networks: dict[str, Any]
    password: str | None = None
    key: str | None = None
    ca: str | None = None
    port: int = 22
    host_key: str | None = None

    def __repr__(self) -> str:
        return "_Answers(***)"


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory that is new, or empty.")],
    proxy: Annotated[str | None, typer.Option("--proxy", metavar="URL", help="http://proxy.example.com:3128")] = None,
    no_proxy: Annotated[
        str | None, typer.Option("--no-proxy", metavar="LIST", help="What goes past the proxy: .corp.example")
    ] = None,
    proxy_user: Annotated[
        str | None,
        typer.Option("--proxy-user", metavar="NAME", help=f"The proxy's user; the password is asked for, or {_PASSWORD}."),
    ] = None,
    ca: Annotated[str | None, typer.Option("--ca", metavar="FILE", help="The CAs to trust, as PEM.")] = None,
    host: Annotated[
        list[str] | None, typer.Option("--host", metavar="ADDRESS", help="A Windows host; may be given again.")
    ] = None,
    username: Annotated[str, typer.Option("--username", "-u", metavar="NAME", help="Who logs in there.")] = "Administrator",
    key: Annotated[str | None, typer.Option("--key", "-i", metavar="FILE", help="The SSH key that opens the hosts.")] = None,
    api_host: Annotated[
        str | None, typer.Option("--api-host", metavar="NAME", help="The API server's internal host, of a cluster.")
    ] = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="A host that is simulated on this machine: `transom simulate DIR` runs it.")
    ] = False,
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", envvar="TRANSOM_NAMESPACE", help="Transom's own namespace.", callback=namespace_name),
    ] = NAMESPACE,
) -> None:
    """Make a directory of manifests to start from.

    What no option says is asked for at a terminal. `transom validate -f DIR` passes; nothing is asked of a host or a cluster.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        fail(f"{directory}: is there, and not empty: name a new directory")
    networks: dict[str, Any] = {"internalAPIHost": api_host} if api_host else {}
    answers = _Answers(proxy, no_proxy, proxy_user, list(host or ()), username, key, ca, networks)
    shown_by_host = _simulate(answers) if simulated else None
    if not simulated and sys.stdin.isatty():
        _ask(answers)
    _complete(answers)
    files = _files(answers, namespace)
    examined = _examined(files, namespace)
    print_findings(examined.findings, sys.stderr)
    if examined.errors:
        fail(f"nothing was written: the manifests would have {counted(len(examined.errors), 'error')}", ExitCode.INVALID)
    for name, objects in files.items():
        write_private(directory / name, (_HEADS[name] + yaml_stream(objects)).encode())
    write_private(directory / ".gitignore", b"secrets.yaml\n.simulated-*\n")
    if shown_by_host is not None:
        write_private(directory / HOST_KEY, shown_by_host.encode())
    tell(f"transom: wrote {', '.join(files)} to {directory}. Next:")
    if simulated:
        tell(f"  transom simulate {directory} --detach")
    for command in ("validate", "diff", "apply"):
        tell(f"  transom {command} -f {directory}")


def _ask(answers: _Answers) -> None:
    """The questions; an empty answer leaves the field out."""
    if answers.proxy is None:
        answers.proxy = typer.prompt("The proxy, as http://proxy.example.com:3128", err=True)
        answers.proxy_user = answers.proxy_user or typer.prompt(
            "Its user (empty: none)", default="", show_default=False, err=True
        )
    if answers.proxy_user and _PASSWORD not in os.environ:
        answers.password = typer.prompt(f"The password of {answers.proxy_user}", hide_input=True, err=True)
    if answers.no_proxy is None:
        asked = "What goes past it beside the cluster itself, with commas (empty: nothing)"
        answers.no_proxy = typer.prompt(asked, default="", show_default=False, err=True)
    if answers.ca_file is None:
        answers.ca_file = typer.prompt("A file with the CAs to trust (empty: none)", default="", show_default=False, err=True)
    if not answers.hosts:
        told = typer.prompt("The Windows hosts, with blanks (empty: none yet)", default="", show_default=False, err=True)
        answers.hosts = told.split()
        if answers.hosts:
            answers.username = typer.prompt("Who logs in there", default=answers.username, err=True)
    if answers.hosts and answers.key_file is None:
        answers.key_file = typer.prompt("The file with the SSH key that opens them", default="~/.ssh/id_ed25519", err=True)


def _simulate(answers: _Answers) -> str:
    """Everything of a host that lives in a process on this machine; gives the private key by which it shows itself."""
    import socket

    import asyncssh

    if answers.hosts or answers.key_file:
        fail("--simulated makes its own host and key: leave --host and --key out")
    own = asyncssh.generate_private_key("ssh-ed25519")
    with socket.create_server(("127.0.0.1", 0)) as free:
        answers.port = free.getsockname()[1]
    answers.hosts = ["127.0.0.1"]
    answers.host_key = own.export_public_key().decode().strip()
    answers.key = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    answers.proxy = answers.proxy or "http://proxy.corp.example:3128"
    answers.no_proxy = ".corp.example" if answers.no_proxy is None else answers.no_proxy
    answers.networks = _EXAMPLE | answers.networks
    if answers.ca_file is None:
        answers.ca = authority("Corp Proxy CA")
    return str(own.export_private_key().decode())


def _complete(answers: _Answers) -> None:
    """Read the files that are named; end the command where something has to be said that was not."""
    if not answers.proxy:
        fail("say the proxy with --proxy http://proxy.example.com:3128, or --simulated for a host to try it on")
    if answers.hosts and answers.key is None and not answers.key_file:
        fail("say the SSH key that opens the hosts with --key FILE")
    if answers.proxy_user and answers.password is None:
        answers.password = os.environ.get(_PASSWORD)
        if answers.password is None:
            fail(f"say the password of {answers.proxy_user} in the environment: {_PASSWORD}")
    for flag, name in (("--key", answers.key_file), ("--ca", answers.ca_file)):
        if name:
            try:
                text = Path(name).expanduser().read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                fail(f"{flag} {name}: cannot be read: {error.strerror if isinstance(error, OSError) else 'not text'}")
            if flag == "--key":
                answers.key = text
            else:
                answers.ca = text


def _files(answers: _Answers, namespace: str) -> dict[str, list[dict[str, Any]]]:
    """The objects of each file."""
    spec: dict[str, Any] = {"httpProxy": answers.proxy, "httpsProxy": answers.proxy}
    secrets, made = [], {}
    if answers.no_proxy:
        spec["noProxy"] = answers.no_proxy
    if answers.proxy_user:
        spec["credentialsSecret"] = {"name": "egress-credentials"}
        secrets.append(_secret("egress-credentials", namespace, username=answers.proxy_user, password=answers.password or ""))
    if answers.ca:
        spec["trustedCA"] = {"name": "corp-ca"}
        meta = {"name": "corp-ca", "namespace": namespace}
        made["ca.yaml"] = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"ca-bundle.crt": answers.ca}}]
    if answers.networks:
        spec["networks"] = answers.networks
    files = {"egress.yaml": [{"apiVersion": _GROUP, "kind": "EgressProxy", "metadata": {"name": "cluster"}, "spec": spec}]}
    if answers.hosts:
        files["hosts.yaml"] = [_instance(answers, namespace, number) for number in range(len(answers.hosts))]
        secrets.append(_secret("cloud-private-key", namespace, **{"private-key.pem": answers.key or ""}))
    if secrets:
        made["secrets.yaml"] = secrets
    return files | made


def _instance(answers: _Answers, namespace: str, number: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"address": answers.hosts[number], "username": answers.username}
    if answers.host_key is not None:
        spec |= {"port": answers.port, "hostKey": answers.host_key}
    meta = {"name": f"win-{number + 1}", "namespace": namespace}
    return {"apiVersion": _GROUP, "kind": "WindowsInstance", "metadata": meta, "spec": spec}


def _secret(name: str, namespace: str, **values: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "stringData": values}


def _examined(files: Mapping[str, list[dict[str, Any]]], namespace: str) -> "Examined":
    """What `validate` would say of them."""
    from transom.sources.examination import examine
    from transom.sources.objects import ObjectReader

    reader = ObjectReader(namespace)
    for name, objects in files.items():
        for one in objects:
            reader.add(one, name, lambda _: (0, 0))
    return examine(reader.objects(), datetime.now(UTC))


def authority(name: str) -> str:
    """A self-signed CA that nobody trusts, made now, as PEM: for simulated hosts."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()
