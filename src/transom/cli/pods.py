"""`transom pods`: what the admission server does to pods, and why."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom.cli.findings import NAMESPACE, Files, Namespace, examine_or_fail
from transom.cli.output import ExitCode, Format, fail, print_data

if TYPE_CHECKING:
    from transom.pods.environment import PodEgress
    from transom.pods.patch import Patch
    from transom.sources.examination import Examined
    from transom.sources.objects import Objects
    from transom.sources.workloads import Workload

pods = typer.Typer(help="What pods get of the settings, and why.", no_args_is_help=True)
_HIDDEN = "***"


@pods.callback()
def group() -> None:
    """What pods get of the settings, and why."""


@pods.command()
def explain(
    filename: Files,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.TEXT,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Say what the admission server would do to each pod in the manifests, and why. Offline.

    The manifests hold the pods, or what makes pods, beside the settings. Of their Namespaces the labels count, of Services the
    address of default/kubernetes.
    """
    from transom.pods.patch import patch

    objects, examined = examine_or_fail(filename, namespace)
    if not objects.workloads:
        fail("there is no pod in these manifests, and nothing that makes pods", ExitCode.INVALID)
    egress = _egress(objects, examined)
    labels = {one.metadata.name: one.metadata.labels for one in objects.namespaces}
    found = []
    for one in objects.workloads:
        place = one.metadata.namespace or ""
        found.append((one, patch(one.pod, place, labels.get(place, {}), egress)))
    if output is Format.TEXT:
        sys.stdout.write("\n".join(_text(one, made) for one, made in found))
    else:
        print_data([_plain(one, made) for one, made in found], output)


def _egress(objects: "Objects", examined: "Examined") -> "PodEgress":
    import msgspec

    from transom.pods.environment import HASH_KEY, of

    held = objects.secret(objects.namespace, "transom-webhook")
    key = held.data.get(HASH_KEY) if held else None
    services = {(one.metadata.namespace, one.metadata.name): one.cluster_ip for one in objects.services}
    made = of(
        examined.settings.own,
        objects.namespace,
        services.get(("default", "kubernetes")),
        key.reveal().encode() if key else b"",
    )
    # without the webhook's key the digest would give credentials away to whoever guesses
    return msgspec.structs.replace(made, digest=_HIDDEN) if made.in_secret and key is None else made


def _plain(one: "Workload", made: "Patch") -> dict[str, Any]:
    from transom.pods.explanation import ca_text, proxy_text

    return {
        "object": f"{one.kind}/{one.metadata.namespace}/{one.metadata.name}",
        "proxy": {"given": made.proxy is None, "reason": proxy_text(made)},
        "ca": {"given": made.ca is None, "reason": ca_text(made)},
        "containers": [
            {
                "name": given.container,
                "list": given.list,
                "added": given.added,
                "kept": given.kept,
                "replaced": given.replaced,
                "mounted": given.mounted,
            }
            for given in made.given
        ],
        "warnings": made.warnings,
        "patch": made.operations,
    }


def _text(one: "Workload", made: "Patch") -> str:
    plain = _plain(one, made)
    lines = [plain["object"], f"  proxy: {plain['proxy']['reason']}", f"  CAs: {plain['ca']['reason']}"]
    for given in made.given:
        parts = [
            f"{verb} {', '.join(names)}"
            for verb, names in (("gets", given.added), ("keeps its", given.kept), ("had replaced", given.replaced))
            if names
        ]
        if parts:
            lines.append(f"  {given.container}: {'; '.join(parts)}")
    lines += [f"  warning: {warning}" for warning in made.warnings]
    return "\n".join(lines) + "\n"
