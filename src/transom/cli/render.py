"""`transom render`: every object and file that Transom would produce, offline."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom.cli.findings import Source, counted, examine_or_fail
from transom.cli.fleet import TemplateReport, app_references
from transom.cli.fleet import machine_templates as templates_to_commit
from transom.cli.options import Output, grouped
from transom.cli.output import ExitCode, Format, fail, print_data, print_document, print_lines, tell, write_private, yaml_stream

if TYPE_CHECKING:
    from transom.proxy.settings import Effective, Egress
    from transom.sources.objects import Objects

_NOTHING = "transom: nothing to render: no Cluster, no ConfigMap that asks for the bundle, no Namespace whose pods get settings"
SYSTEM_CA_FILE = "/etc/ssl/certs/ca-certificates.crt"
# a field manager of its own: what kubectl applied under its own name and does not find again it takes away
_REFERENCES = """\
# For Apps and HelmReleases that are there: `kubectl apply --server-side --field-manager=cluster-values` adds these fields.
# A HelmRelease with valuesFrom of its own: put these items before yours, which then win.
"""


@grouped
def render(
    source: Source,
    output: Output = Format.YAML,
    output_dir: Annotated[
        str | None, typer.Option("--output-dir", metavar="D", help="Write files, values included, each 0600.")
    ] = None,
    system_ca_file: Annotated[
        str, typer.Option("--system-ca-file", metavar="FILE", help="The CAs to which a bundle that replaces a store is added.")
    ] = SYSTEM_CA_FILE,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Show the values of Secrets.")] = False,
    machine_templates: Annotated[
        TemplateReport | None,
        typer.Option("--machine-templates", help="Print what to commit where templates, or a ClusterClass, are kept in Git."),
    ] = None,
    first_machine: Annotated[
        bool,
        typer.Option("--first-machine", help="Write to --output-dir what a host needs before `kubeadm init`, or kind."),
    ] = False,
) -> None:
    """Print every object that Transom would produce.

    That is for workload clusters, for ConfigMaps that ask for the bundle, and for pods of the Namespaces among the manifests.
    With --output-dir they are written as files, and the hosts' registry files beside them.
    """
    objects, examined = examine_or_fail(source)
    if first_machine:
        _write_first_machine(examined.settings, output_dir)
        return
    if machine_templates is not None:
        found = templates_to_commit(objects, examined.settings, machine_templates, show_secrets=show_secrets)
        _print_machine_templates(list(found), output)
        return
    rendered = list(_objects(objects, examined.settings, system_ca_file))
    references = list(app_references(objects, examined.settings))
    if output_dir is not None:
        written = _write(Path(output_dir), rendered, references, objects, examined.settings)
        tell(f"transom: wrote {counted(written, 'file')} to {output_dir}" if written else _NOTHING)
    elif output is Format.JSON:
        items = [_shown(item, show_secrets=show_secrets) for item in (*rendered, *references)]
        print_data({"apiVersion": "v1", "kind": "List", "items": items}, output)
    else:
        print_document(yaml_stream([_shown(item, show_secrets=show_secrets) for item in rendered]))
        if references:
            print_document(_REFERENCES)
            print_document(yaml_stream(references))
        if not rendered and not references:
            tell(_NOTHING + ("; --output-dir writes the registry files of hosts" if objects.windows_instances else ""))


def _write_first_machine(settings: "Effective", output_dir: str | None) -> None:
    from transom.capi.machine_files import first_machine_files

    if output_dir is None:
        fail("--first-machine needs --output-dir: the files hold the credentials")
    found = first_machine_files(settings.own) if settings.own is not None else ()
    for one in found:
        path = Path(output_dir, one.path)
        write_private(path, one.content.reveal().encode())
        path.chmod(one.mode)
    written = f"wrote {counted(len(found), 'file')} to {output_dir}"
    tell(f"transom: {written if found else 'nothing for a machine: there is no base, or Nodes is no consumer of it'}")


def _print_machine_templates(items: list[dict[str, Any]], output: Format) -> None:
    if output is Format.JSON:
        print_data({"apiVersion": "v1", "kind": "List", "items": items}, output)
        return
    print_lines("# Parts of objects, to be added to the lists of yours: they are not to be applied as they are.")
    print_document(yaml_stream(items))


def _objects(objects: "Objects", settings: "Effective", system_ca_file: str) -> Iterator[dict[str, Any]]:
    from transom.cli.fleet import fleet_objects
    from transom.proxy.trust import BundleTarget, bundle_targets, trust_text

    for _, made in fleet_objects(objects, settings):
        yield from (item.manifest() for item in made)
    own = settings.own
    if own is not None:
        yield from _pod_objects(objects, own, system_ca_file)
    wanted: list[BundleTarget] = list(bundle_targets(objects.config_maps.values(), openshift=objects.proxy is not None))
    if own is None or not own.trust or not wanted:
        return
    system = "" if all(target.bundle_only for target in wanted) else _system_cas(system_ca_file)
    for target in wanted:
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": target.name, "namespace": target.namespace},
            "data": {"ca-bundle.crt": trust_text(own.trust, "" if target.bundle_only else system)},
        }


def _pod_objects(objects: "Objects", own: "Egress", system_ca_file: str) -> Iterator[dict[str, Any]]:
    """What pods of the Namespaces among the manifests refer to."""
    from transom.pods.decision import INJECT_CA
    from transom.pods.environment import config_map, of, secret
    from transom.proxy.trust import trust_text

    egress = of(own, objects.namespace, None, b"")
    asking = {one.metadata.namespace for one in objects.workloads if one.pod.metadata.label(INJECT_CA) == "true"}
    for one in objects.namespaces:
        name, labels = one.metadata.name, one.metadata.labels
        if egress.secret_in(name, labels):
            yield secret(name, own)
        if egress.config_map_in(name, labels, asked=labels.get(INJECT_CA) == "true" or name in asking):
            yield config_map(name, trust_text(own.trust, _system_cas(system_ca_file)))


@functools.cache
def _system_cas(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        fail(f"{path}: the system's CAs cannot be read: name their file with --system-ca-file", ExitCode.INVALID)


def _shown(item: dict[str, Any], *, show_secrets: bool) -> dict[str, Any]:
    if item["kind"] != "Secret" or show_secrets:
        return item
    return {**item, "data": dict.fromkeys(item.get("data", {}), "***")}


def _write(
    directory: Path,
    rendered: list[dict[str, Any]],
    references: list[dict[str, Any]],
    objects: "Objects",
    settings: "Effective",
) -> int:
    """Write all files, and give how many they are."""
    from transom.windows.planning import desired_settings
    from transom.windows.registry.edits import SetValue
    from transom.windows.registry.reg import render as render_reg

    files = [*((item, "objects") for item in rendered), *((item, "references") for item in references)]
    written = len(files)
    for item, kind in files:
        meta = item["metadata"]
        folder = directory / kind / meta.get("namespace", "_cluster")
        write_private(folder / f"{item['kind'].lower()}-{meta['name']}.yaml", yaml_stream([item]).encode())
    for host in objects.windows_instances:
        egress = settings.of(host)
        if egress is not None:
            # values alone: a key without any would make a service that does not exist
            values = ((key.path, named) for key in desired_settings(egress).registry for named in (key.values or {}).values())
            edits = (SetValue(path, named.name, named.value) for path, named in values)
            write_private(directory / "hosts" / host.name / "desired.reg", render_reg(edits))
            written += 1
    return written
