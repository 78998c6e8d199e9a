"""`transom init`: a directory of manifests to start from, by options, by questions, or by what a cluster says."""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from transom.cli.cluster import ClusterOptions, Context, parse_namespace
from transom.cli.findings import print_findings
from transom.cli.init_answers import (
    NETWORKS,
    PASSWORD,
    Answers,
    HostAnswer,
    ask_missing_answers,
    parse_api_host,
    parse_hosts,
    parse_login,
    parse_networks,
    parse_no_proxy,
    parse_option,
    parse_proxy,
    parse_proxy_user,
    read_ca,
    read_key,
)
from transom.cli.messages import print_to_stderr
from transom.cli.options import NAMESPACE
from transom.cli.output import ExitCode, fail, to_yaml_stream
from transom.cli.output_files import Force, replace_file
from transom.common.counting import format_count
from transom.common.regular_files import read_regular_text

if TYPE_CHECKING:
    from transom.sources.examination import Examined

HOST_KEY: Final = ".simulated-host-key"
"""The file by which a simulated host is the same one each time."""
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
    "ca.yaml": "# The CAs that hosts trust. To rotate one, add the new one, apply, and remove the old one later.\n",
    "secrets.yaml": "# The hosts' SSH key and the proxy's credentials. Do not commit them unencrypted: see .gitignore.\n",
}
_IGNORED: Final = ("secrets.yaml", ".simulated-*")


def _create_network_option(name: str) -> Any:
    return typer.Option(
        f"--{name}-network", metavar="CIDR", help=f"Networks of the cluster's {name}s, comma-separated or repeated."
    )


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty directory.")],
    proxy: Annotated[
        str | None, typer.Option("--proxy", metavar="URL", help="The proxy: http://proxy.example.com:3128")
    ] = None,
    no_proxy: Annotated[
        str | None, typer.Option("--no-proxy", metavar="LIST", help="Hosts that bypass the proxy: .corp.example")
    ] = None,
    proxy_user: Annotated[
        str | None,
        typer.Option(
            "--proxy-user",
            metavar="NAME",
            help=f"User name at the proxy. The password is {PASSWORD}, or read from the terminal.",
        ),
    ] = None,
    ca: Annotated[str | None, typer.Option("--ca", metavar="FILE", help="The CAs to trust, as PEM, DER or PKCS#7.")] = None,
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="[USER@]ADDRESS[:PORT]", help="A Windows host. Repeatable."),
    ] = None,
    username: Annotated[
        str | None,
        typer.Option(
            "--username", "-u", metavar="NAME", help="User name on the hosts. [default: Administrator]", show_default=False
        ),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-i", metavar="FILE", help="SSH private key for the hosts.")] = None,
    api_host: Annotated[
        str | None,
        typer.Option(
            "--api-host", metavar="NAME", help="Host name of the API server for nodes. Required for hosts with a kubelet."
        ),
    ] = None,
    machine_network: Annotated[list[str] | None, _create_network_option("machine")] = None,
    service_network: Annotated[list[str] | None, _create_network_option("service")] = None,
    pod_network: Annotated[list[str] | None, _create_network_option("pod")] = None,
    from_cluster: Annotated[
        bool,
        typer.Option("--from-cluster", help="Read the API server host and the networks from the cluster of the kubeconfig."),
    ] = False,
    from_nodes: Annotated[bool, typer.Option("--from-nodes", help="Add each Windows Node of that cluster as a host.")] = False,
    kubeconfig: Annotated[
        str | None,
        typer.Option("--kubeconfig", metavar="FILE", help="The kubeconfig. [default: KUBECONFIG, else ~/.kube/config]"),
    ] = None,
    context: Context = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Add a simulated host, which `transom simulate DIR` runs.")
    ] = False,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", envvar="TRANSOM_NAMESPACE", help="Transom's own namespace.", callback=parse_namespace
        ),
    ] = NAMESPACE,
    force: Force = False,
) -> None:
    """Create a directory with manifests to start from.

    On a terminal, the command prompts for everything that is not set by options, and validates each answer, so that `transom
    validate -f DIR` passes. It does not connect to hosts, and connects to a cluster only with --from-cluster or
    --from-nodes.
    """
    if not force:
        _refuse_nonempty_directory(directory)
    answers = Answers(no_proxy=None if no_proxy is None else parse_option("--no-proxy", parse_no_proxy, no_proxy))
    _set_proxy_answers(answers, proxy, proxy_user)
    answers.ca = None if ca is None else parse_option("--ca", read_ca, ca)
    answers.key = None if key is None else parse_option("--key", read_key, key)
    answers.username = parse_option("--username", parse_login, username) if username is not None else answers.username
    answers.hosts = parse_option("--host", parse_hosts, " ".join(host)) if host else None
    for field, item in (
        ("machineNetwork", machine_network),
        ("serviceNetwork", service_network),
        ("podNetwork", pod_network),
    ):
        if item and (cidrs := parse_option(f"--{NETWORKS[field]}-network", parse_networks, " ".join(item))):
            answers.networks[field] = cidrs
    if api_host:
        answers.networks["internalAPIHost"] = parse_option("--api-host", parse_api_host, api_host)
    shown_by_host = _add_simulated_host(answers) if simulated else None
    if from_cluster or from_nodes or kubeconfig is not None or context is not None:
        if simulated:
            fail("--simulated knows no cluster: leave --from-cluster, --from-nodes, --kubeconfig and --context out")
        _add_cluster_answers(answers, ClusterOptions(kubeconfig=kubeconfig, context=context), nodes=from_nodes)
    if not simulated and sys.stdin.isatty():
        ask_missing_answers(answers)
        if key is not None and not answers.hosts:
            print_to_stderr("transom: --key is not written: there are no hosts")
    elif key is not None and not answers.hosts:
        fail("--key is the SSH key for hosts: name them with --host, or with --from-nodes")
    _require_answers(answers)
    files = _build_files(answers, namespace)
    examined = _examine_files(files, namespace)
    print_findings(examined.findings, sys.stderr)
    if examined.errors:
        fail(f"nothing was written: the manifests would have {format_count(len(examined.errors), 'error')}", ExitCode.INVALID)
    with _without_remains(directory):
        _write_manifests(directory, files, shown_by_host)
    print_to_stderr(f"transom: wrote {', '.join(files)} to {directory}. Next:")
    if simulated:
        print_to_stderr(f"  transom simulate {directory} --detach")
    for command in ("validate", "diff", "apply") if answers.hosts else ("validate",):
        print_to_stderr(f"  transom {command} -f {directory}")


def _refuse_nonempty_directory(directory: Path) -> None:
    """End the command if the directory has files: manifests of two makers in one directory are applied together."""
    if not directory.exists():
        return
    if not directory.is_dir():
        fail(f"{directory}: is a file: name a new directory")
    # a repository that is still empty has a `.git`
    if any(not entry.name.startswith(".") for entry in directory.iterdir()):
        fail(f"{directory}: exists and is not empty: name a new directory, or replace its files of the same names with --force")


def _set_proxy_answers(answers: Answers, proxy: str | None, user: str | None) -> None:
    if user is not None:
        answers.proxy_user = parse_option("--proxy-user", parse_proxy_user, user)
    if proxy is None:
        return
    answers.proxy, inline, password = parse_option("--proxy", parse_proxy, proxy)
    if inline and user is not None:
        fail("--proxy: the URL has a user name, and --proxy-user names one too: keep one of them")
    if inline:
        answers.proxy_user, answers.password = inline, password
        print_to_stderr("transom: the user name and the password of --proxy go into a Secret")
    elif user is None:
        # who names the proxy alone has said that there is no user
        answers.proxy_user = ""


def _add_cluster_answers(answers: Answers, cluster: ClusterOptions, *, nodes: bool) -> None:
    from transom.cli.init_cluster import read_cluster

    read = read_cluster(cluster)
    answers.networks = {**read.networks, **answers.networks}
    if nodes and answers.hosts is None:
        if not read.hosts:
            fail(
                "--from-nodes: the cluster has no Windows Node that Transom can manage: specify hosts with --host",
                ExitCode.NOT_DONE,
            )
        answers.hosts = read.hosts
    elif answers.hosts is None and read.hosts and sys.stdin.isatty():
        answers.offered = read.hosts
    elif answers.hosts is None and read.hosts:
        names = ", ".join(f"{host.name} ({host.address})" for host in read.hosts)
        print_to_stderr(f"transom: Windows Nodes are {names}: --from-nodes makes hosts of them")


def _add_simulated_host(answers: Answers) -> str:
    """Fill in a host that lives in a process on this machine; return the private key by which it shows itself."""
    import socket

    import asyncssh

    if answers.hosts or answers.key:
        fail("--simulated makes its own host and key: leave --host and --key out")
    own = asyncssh.generate_private_key("ssh-ed25519")
    with socket.create_server(("127.0.0.1", 0)) as free:
        answers.hosts = [HostAnswer("127.0.0.1", free.getsockname()[1])]
    answers.host_key = own.export_public_key().decode().strip()
    answers.key = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    answers.proxy = answers.proxy or "http://proxy.corp.example:3128"
    answers.no_proxy = ".corp.example" if answers.no_proxy is None else answers.no_proxy
    answers.networks = _EXAMPLE | answers.networks
    if answers.ca is None:
        answers.ca = create_authority("Corp Proxy CA")
    return str(own.export_private_key().decode())


def _require_answers(answers: Answers) -> None:
    """End the command if something is missing that no option and no answer said."""
    if not answers.proxy:
        fail("name the proxy with --proxy http://proxy.example.com:3128, or use --simulated for a host to try it on")
    if answers.hosts and answers.key is None:
        fail("name the SSH private key for the hosts with --key FILE")
    if answers.proxy_user and answers.password is None:
        answers.password = os.environ.get(PASSWORD)
        if answers.password is None:
            fail(f"put the password of {answers.proxy_user} into the environment: {PASSWORD}")


def _build_files(answers: Answers, namespace: str) -> dict[str, list[dict[str, Any]]]:
    """Return the objects of each file."""
    spec: dict[str, Any] = {"httpProxy": answers.proxy, "httpsProxy": answers.proxy}
    secrets, made = [], {}
    if answers.no_proxy:
        spec["noProxy"] = answers.no_proxy
    if answers.proxy_user:
        spec["credentialsSecret"] = {"name": "egress-credentials"}
        secrets.append(
            _build_secret("egress-credentials", namespace, username=answers.proxy_user, password=answers.password or "")
        )
    if answers.ca:
        spec["trustedCA"] = {"name": "corp-ca"}
        meta = {"name": "corp-ca", "namespace": namespace}
        made["ca.yaml"] = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"ca-bundle.crt": answers.ca}}]
    if answers.networks:
        spec["networks"] = dict(sorted(answers.networks.items()))
    files = {"egress.yaml": [{"apiVersion": _GROUP, "kind": "EgressProxy", "metadata": {"name": "cluster"}, "spec": spec}]}
    if answers.hosts:
        files["hosts.yaml"] = [
            _build_instance(answers, host, namespace, number) for number, host in enumerate(answers.hosts, 1)
        ]
        secrets.append(_build_secret("cloud-private-key", namespace, **{"private-key.pem": answers.key or ""}))
    if secrets:
        made["secrets.yaml"] = secrets
    return files | made


def _build_instance(answers: Answers, host: HostAnswer, namespace: str, number: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"address": host.address, "username": host.username or answers.username}
    if host.port != 22:
        spec["port"] = host.port
    if answers.host_key is not None:
        spec["hostKey"] = answers.host_key
    meta = {"name": host.name or f"win-{number}", "namespace": namespace}
    return {"apiVersion": _GROUP, "kind": "WindowsInstance", "metadata": meta, "spec": spec}


def _build_secret(name: str, namespace: str, **values: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "stringData": values}


def _examine_files(files: Mapping[str, list[dict[str, Any]]], namespace: str) -> "Examined":
    """Return what `validate` would say of the files."""
    from transom.sources.examination import examine_objects
    from transom.sources.objects import ObjectReader

    reader = ObjectReader(namespace)
    for name, objects in files.items():
        for obj in objects:
            reader.add(obj, name, lambda _: (0, 0))
    return examine_objects(reader.build_objects(), datetime.now(UTC))


@contextlib.contextmanager
def _without_remains(directory: Path) -> Iterator[None]:
    """Delete what an OSError in the block leaves of a directory that did not exist, and of its new parents."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        yield
    except OSError:
        if missing:
            shutil.rmtree(missing[-1], ignore_errors=True)
        raise


def _write_manifests(directory: Path, files: Mapping[str, list[dict[str, Any]]], host_private_key: str | None) -> None:
    for name, objects in files.items():
        replace_file(directory / name, (_HEADS[name] + to_yaml_stream(objects)).encode(), private=True)
    ignore = directory / ".gitignore"
    kept = read_regular_text(ignore).splitlines() if ignore.exists() else []
    lines = [*kept, *(line for line in _IGNORED if line not in kept)]
    replace_file(ignore, "".join(f"{line}\n" for line in lines).encode(), private=True)
    if host_private_key is not None:
        replace_file(directory / HOST_KEY, host_private_key.encode(), private=True)


def create_authority(name: str) -> str:
    """Create a self-signed CA for simulated hosts, as PEM."""
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
