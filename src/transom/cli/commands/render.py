"""`transom render`: every object and file that Transom would produce, offline."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom.cli.findings import Source, examine_or_fail
from transom.cli.messages import print_to_stderr
from transom.cli.options import Output, with_option_groups
from transom.cli.output import ExitCode, Format, fail, print_data, print_document, print_lines, to_yaml_stream
from transom.cli.output_files import Force, write_files
from transom.cli.workload_cluster_objects import TemplateReport, iter_app_references, iter_unsupported_machines
from transom.cli.workload_cluster_objects import iter_template_additions as templates_to_commit
from transom.common.counting import format_count
from transom.common.regular_files import read_regular_text

if TYPE_CHECKING:
    from transom.proxy.settings import Egress, ResolvedSettings
    from transom.sources.objects import Objects

_NOTHING = "transom: nothing to render: no Cluster, no ConfigMap that asks for the bundle, no Namespace whose pods get settings"
SYSTEM_CA_FILE = "/etc/ssl/certs/ca-certificates.crt"
# a field manager of its own: what kubectl applied under its own name and does not find again it takes away
_REFERENCES = """\
# For existing Apps and HelmReleases: `kubectl apply --server-side --field-manager=cluster-values` adds these fields.
# If a HelmRelease already has valuesFrom, add these items before the existing ones, which then take precedence.
"""


@with_option_groups
def render(
    source: Source,
    output: Output = Format.YAML,
    output_dir: Annotated[
        str | None,
        typer.Option("--output-dir", metavar="D", help="Write files instead, including secret values, with mode 0600."),
    ] = None,
    system_ca_file: Annotated[
        str, typer.Option("--system-ca-file", metavar="FILE", help="System CAs to add to bundles that replace a trust store.")
    ] = SYSTEM_CA_FILE,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Show the values of Secrets.")] = False,
    machine_templates: Annotated[
        TemplateReport | None,
        typer.Option("--machine-templates", help="Print what to commit if Git manages templates or a ClusterClass."),
    ] = None,
    first_machine: Annotated[
        bool,
        typer.Option("--first-machine", help="Write files for a host before `kubeadm init` or kind to --output-dir."),
    ] = False,
    cluster_apps_operator_values: Annotated[
        bool,
        typer.Option("--cluster-apps-operator-values", help="Print the proxy as Helm values of cluster-apps-operator."),
    ] = False,
    force: Force = False,
) -> None:
    """Print every object that Transom would create.

    The output contains objects for workload clusters, for ConfigMaps that request the bundle, and for pods in the Namespaces
    of the manifests. With --output-dir, the command writes them to files, and also the registry files of hosts.
    """
    objects, examined = examine_or_fail(source)
    if first_machine:
        _write_first_machine(examined.settings, output_dir, force=force)
        return
    if cluster_apps_operator_values:
        _print_peer_values(objects, examined.settings, output_dir, show_secrets=show_secrets, force=force)
        return
    if machine_templates is not None:
        templates = templates_to_commit(objects, examined.settings, machine_templates, show_secrets=show_secrets)
        _print_machine_templates(list(templates), output)
        unsupported = list(iter_unsupported_machines(objects, examined.settings, machine_templates))
        for message in unsupported:
            print_to_stderr(f"transom: error: {message}")
        if unsupported:
            raise SystemExit(ExitCode.INVALID)
        return
    rendered = list(_iter_objects(objects, examined.settings, system_ca_file))
    references = list(iter_app_references(objects, examined.settings))
    if output_dir is not None:
        written = _write_rendered_files(Path(output_dir), rendered, references, objects, examined.settings, force=force)
        print_to_stderr(f"transom: wrote {format_count(written, 'file')} to {output_dir}" if written else _NOTHING)
    elif output is Format.JSON:
        items = [_redact_secret_data(item, show_secrets=show_secrets) for item in (*rendered, *references)]
        print_data({"apiVersion": "v1", "kind": "List", "items": items}, output)
    else:
        print_document(to_yaml_stream([_redact_secret_data(item, show_secrets=show_secrets) for item in rendered]))
        if references:
            print_document(_REFERENCES)
            print_document(to_yaml_stream(references))
        if not rendered and not references:
            print_to_stderr(
                _NOTHING + ("; --output-dir writes the registry files of hosts" if objects.windows_instances else "")
            )


def _write_first_machine(settings: "ResolvedSettings", output_dir: str | None, *, force: bool) -> None:
    from transom.capi.bootstrap.machine_files import build_first_machine_files

    if output_dir is None:
        fail("--first-machine needs --output-dir: the files hold the credentials")
    machine_files = build_first_machine_files(settings.own) if settings.own is not None else ()
    if machine_files:
        files = {item.path: item.content.reveal().encode() for item in machine_files}
        write_files("--output-dir", Path(output_dir), files, force=force, private=True)
    for entry in machine_files:
        Path(output_dir, entry.path).chmod(entry.mode)
    written = f"wrote {format_count(len(machine_files), 'file')} to {output_dir}"
    print_to_stderr(
        f"transom: {written}"
        if machine_files
        else "transom: nothing for a machine: no base exists, or Nodes is not one of its consumers"
    )


def _print_peer_values(
    objects: "Objects", settings: "ResolvedSettings", output_dir: str | None, *, show_secrets: bool, force: bool
) -> None:
    from transom.capi.values.values_objects import PEER_CHANGES, render_peer_values
    from transom.proxy.layers import build_base_layer

    layer, own = build_base_layer(objects), settings.own
    if layer is None or own is None or not (own.http_proxy or own.https_proxy):
        fail("--cluster-apps-operator-values: no proxy: neither EgressProxy/cluster nor Proxy/cluster sets one")
    urls = [url.reveal() for url in (own.http_proxy, own.https_proxy) if url]
    changed = sorted(PEER_CHANGES & set("".join(urls)))
    if changed:
        print_to_stderr(
            f"transom: warning: cluster-apps-operator changes {' '.join(changed)} in its drop-in (it escapes HTML, and systemd "
            "reads %): choose a password without them"
        )
    others = sorted(
        "/".join(key)
        for key, egress in settings.clusters.items()
        if egress is not None and (egress.http_proxy, egress.https_proxy) != (own.http_proxy, own.https_proxy)
    )
    if others:
        print_to_stderr(
            "transom: warning: cluster-apps-operator has one proxy for all clusters; the settings give another or none to "
            f"Cluster {', '.join(others)}"
        )
    hide = own.holds_credentials and not show_secrets
    text = render_peer_values(own, layer.items, hide=hide and output_dir is None).reveal()
    if output_dir is not None:
        files = {"cluster-apps-operator-values.yaml": text.encode()}
        write_files("--output-dir", Path(output_dir), files, force=force, private=True)
        print_to_stderr(f"transom: wrote cluster-apps-operator-values.yaml to {output_dir}")
        return
    if hide:
        print_to_stderr(
            "note: the URLs hold credentials and are left out: --show-secrets prints them, --output-dir writes them"
        )
    print_document(text)


def _print_machine_templates(items: list[dict[str, Any]], output: Format) -> None:
    if output is Format.JSON:
        print_data({"apiVersion": "v1", "kind": "List", "items": items}, output)
        return
    print_lines("# Parts of objects: add them to the lists in your objects. Do not apply them unchanged.")
    print_document(to_yaml_stream(items))


def _iter_objects(objects: "Objects", settings: "ResolvedSettings", system_ca_file: str) -> Iterator[dict[str, Any]]:
    from transom.cli.workload_cluster_objects import iter_fleet_objects
    from transom.proxy.trust import BundleTarget, format_trust_store, iter_bundle_targets

    for _, made in iter_fleet_objects(objects, settings):
        yield from (item.to_manifest() for item in made)
    own = settings.own
    if own is not None:
        yield from _iter_pod_objects(objects, own, system_ca_file)
    wanted: list[BundleTarget] = list(iter_bundle_targets(objects.config_maps.values(), openshift=objects.proxy is not None))
    if own is None or not own.trust or not wanted:
        return
    system = "" if all(target.bundle_only for target in wanted) else _read_system_cas(system_ca_file)
    for target in wanted:
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": target.name, "namespace": target.namespace},
            "data": {"ca-bundle.crt": format_trust_store(own.trust, "" if target.bundle_only else system)},
        }


def _iter_pod_objects(objects: "Objects", own: "Egress", system_ca_file: str) -> Iterator[dict[str, Any]]:
    """Iterate over the objects to which pods of the manifests' Namespaces refer."""
    from transom.pods.decision import INJECT_CA
    from transom.pods.environment import build_config_map, build_pod_egress, build_secret
    from transom.proxy.trust import format_trust_store

    egress = build_pod_egress(own, objects.namespace, None, b"")
    asking = {
        workload.metadata.namespace for workload in objects.workloads if workload.pod.metadata.get_label(INJECT_CA) == "true"
    }
    for namespace in objects.namespaces:
        name, labels = namespace.metadata.name, namespace.metadata.labels
        if egress.needs_secret(name, labels):
            yield build_secret(name, own)
        if egress.needs_config_map(name, labels, is_requested=labels.get(INJECT_CA) == "true" or name in asking):
            yield build_config_map(name, format_trust_store(own.trust, _read_system_cas(system_ca_file)))


@functools.cache
def _read_system_cas(path: str) -> str:
    try:
        return read_regular_text(path)
    except (OSError, UnicodeDecodeError):
        fail(f"{path}: the system's CAs cannot be read: name their file with --system-ca-file", ExitCode.INVALID)


def _redact_secret_data(item: dict[str, Any], *, show_secrets: bool) -> dict[str, Any]:
    if item["kind"] != "Secret" or show_secrets:
        return item
    return {**item, "data": dict.fromkeys(item.get("data", {}), "***")}


def _write_rendered_files(
    directory: Path,
    rendered: list[dict[str, Any]],
    references: list[dict[str, Any]],
    objects: "Objects",
    settings: "ResolvedSettings",
    *,
    force: bool,
) -> int:
    """Write all files, and return how many they are."""
    from transom.windows.planning.planner import build_desired_settings
    from transom.windows.registry.edits import SetValue
    from transom.windows.registry.reg import render as render_reg

    files: dict[str, bytes] = {}
    for item, kind in [*((item, "objects") for item in rendered), *((item, "references") for item in references)]:
        meta = item["metadata"]
        folder = f"{kind}/{meta.get('namespace', '_cluster')}"
        files[f"{folder}/{item['kind'].lower()}-{meta['name']}.yaml"] = to_yaml_stream([item]).encode()
    for host in objects.windows_instances:
        egress = settings.for_instance(host)
        if egress is not None:
            # values alone: a key without any would make a service that does not exist
            desired = build_desired_settings(egress)
            values = ((key.path, named) for key in desired.registry for named in (key.values or {}).values())
            edits = (SetValue(path, named.name, named.value) for path, named in values)
            files[f"hosts/{host.name}/desired.reg"] = render_reg(edits)
            if desired.profile:
                files[f"hosts/{host.name}/profile.ps1"] = desired.profile.encode("ascii")
    if files:
        write_files("--output-dir", directory, files, force=force, private=True)
    return len(files)
