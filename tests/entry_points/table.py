"""The table of entry points: every place where bytes of others enter Transom."""

from typing import Any, Final

from tests.entry_points import endpoints, files, hosts, kubernetes, ports
from tests.entry_points.entry_point import MIB, EntryPoint
from tests.kube.test_bounds import FOLLOWED

from transom.kube.memory_limits import get_memory_limit
from transom.kube.resources import Resource

_YAML: Final = "sources/yaml_text.py _Reader.__init__()"
_CONNECT: Final = ("hosts/ssh/connections.py open_connection()", "hosts/ssh/connections.py run_proxy_command()")


def _build_kind(name: str, resource: Resource[Any]) -> EntryPoint:
    """Return the row of a kind that is followed: whoever may write it makes objects as large as the API server takes."""
    bound = get_memory_limit(resource)
    retained = min(bound.store, (len(kubernetes.SHAPES) + 1) * (bound.object + (20 << 10))) + MIB
    return EntryPoint(f"kind {name}", (name,), kubernetes.SHAPES, kubernetes.open_kind(name), 160 * MIB, retained)


def _build_files(name: str, kind: files.Files, *enters_by: str) -> EntryPoint:
    """Return the row of files of a kind."""
    return EntryPoint(name, enters_by, files.list_inputs(kind), files.open_files(kind), 224 * MIB, 64 * MIB, kind.seconds)


ENTRY_POINTS: Final[tuple[EntryPoint, ...]] = (
    EntryPoint(
        "SSH before the login", _CONNECT, hosts.BEFORE_LOGIN, hosts.open_ssh, growth=144 * MIB, retained=24 * MIB, at_once=24
    ),
    EntryPoint(
        "SSH after the login",
        ("hosts/ssh/transport.py SshTransport._run_session()",),
        hosts.AFTER_LOGIN,
        hosts.open_ssh,
        growth=144 * MIB,
        retained=24 * MIB,
        at_once=24,
    ),
    EntryPoint("SSH key exchanges again", (), hosts.RE_EXCHANGE, hosts.open_ssh, 96 * MIB, 16 * MIB, at_once=8),
    EntryPoint("SFTP", ("hosts/ssh/sftp.py start_sftp()",), hosts.SFTP, hosts.open_hosts, 144 * MIB, 24 * MIB, at_once=6),
    EntryPoint("script output", (), hosts.OUTPUT, hosts.open_hosts, 320 * MIB, 32 * MIB, at_once=6),
    *(_build_kind(name, resource) for name, resource in FOLLOWED.items()),
    EntryPoint(
        "lists that a controller reads once",
        (
            "controllers/egress/controller.py EgressController._find_unlabelled_bundles()",
            "controllers/join/reserved_names.py _list_services()",
            "controllers/rollout/drain.py Drain.run_step()",
        ),
        kubernetes.LISTS,
        kubernetes.open_operator,
        growth=192 * MIB,
        retained=48 * MIB,
    ),
    EntryPoint("certificate requests", (), kubernetes.CERTIFICATE_REQUESTS, kubernetes.open_operator, 64 * MIB, 16 * MIB),
    EntryPoint("kubeconfigs of tenants", (), kubernetes.KUBECONFIGS, kubernetes.open_kubeconfigs, 48 * MIB, 16 * MIB),
    EntryPoint(
        "API servers of workload clusters",
        (
            "controllers/propagation/controller.py PropagationController._propagate()",
            "kube/transport.py HttpTransport._get_session()",
        ),
        kubernetes.FOREIGN_ANSWERS,
        kubernetes.open_foreign,
        growth=128 * MIB,
        retained=24 * MIB,
        at_once=2,
    ),
    EntryPoint(
        "logs and output of pods",
        (
            "kube/client.py Client.execute()",
            "verification/cluster_verification.py _ClusterVerification._answer_question()",
            "verification/cluster_verification.py _ClusterVerification._run_shutdown()",
            "kube/transport.py HttpTransport._connect_websocket()",
        ),
        kubernetes.NODE_ANSWERS,
        kubernetes.open_nodes,
        growth=160 * MIB,
        retained=24 * MIB,
    ),
    EntryPoint(
        "the metrics port",
        ("http_server/server.py BoundedServer.serve()", "http_server/server.py _listen()"),
        ports.METRICS,
        ports.open_metrics,
        # the strangers and their TLS are in the same process
        growth=88 * MIB,
        retained=16 * MIB,
        at_once=4,
    ),
    EntryPoint("the admission port", (), ports.ADMISSION, ports.open_admission, 192 * MIB, 24 * MIB, at_once=4),
    _build_files(
        "manifests", files.MANIFESTS, "sources/directory.py _load_file()", "sources/directory.py iter_values()", _YAML
    ),
    _build_files(
        "templates of Cluster API",
        files.TEMPLATE_FILES,
        "capi/bootstrap/injection.py decode_content()",
        "capi/check/template_check.py _read_gzip_prefix()",
        "cli/commands/capi.py _read_objects()",
        "cli/commands/capi.py check()",
    ),
    _build_files("inputs of workers", files.INPUT_FILES, "cli/capi_inputs.py read_mapping()"),
    _build_files("values of an installation", files.VALUES_FILES, "cli/commands/manifests.py _read_values()"),
    _build_files(
        "bundles of CAs",
        files.BUNDLE_FILES,
        "controllers/egress/bundles.py BundleText.render()",
        "cli/commands/render.py _read_system_cas()",
        "cli/init_answers.py _read_file()",
    ),
    _build_files("bundles of CAs that are shown", files.INSPECTED_FILES, "cli/commands/trust.py _read_bundle()"),
    _build_files("SSH keys", files.KEY_FILES),
    _build_files(
        "known_hosts",
        files.KNOWN_HOSTS_FILES,
        "hosts/ssh/known_hosts.py KnownHostsFile._list_recorded()",
        "hosts/ssh/jump_hosts.py _read_known_hosts()",
    ),
    _build_files(
        "tar archives",
        files.TAR_FILES,
        "common/archives.py open_member()",
        "common/archives.py open_tar()",
        "sources/payload_build.py _DownloadTask._extract_member()",
    ),
    _build_files("zip archives", files.ZIP_FILES),
    _build_files(
        "container images",
        files.IMAGE_FILES,
        "oci/image_files.py _DirectoryStore._open()",
        "oci/image_files.py _iter_files()",
        "oci/image_files.py _iter_layer()",
        "oci/image_files.py _open_store()",
        "oci/image_files.py _unpack()",
    ),
    EntryPoint(
        "HTTP servers of others",
        (
            "controllers/join/api_server_trust.py _verify_server()",
            "controllers/pods/webhook_check.py _check_server()",
            "http/downloads.py Route.open_session()",
            "http/downloads.py _read_partial()",
            "http/readiness.py probe()",
            "verification/cluster_verification.py _fetch_directly()",
        ),
        endpoints.ENDPOINTS,
        endpoints.open_endpoints,
        growth=192 * MIB,
        retained=24 * MIB,
    ),
)
