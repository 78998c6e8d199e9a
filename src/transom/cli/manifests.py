"""`transom manifests`: everything needed to install Transom, as YAML for `kubectl apply -f -`."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from transom.cli.cluster import namespace_name
from transom.cli.options import NAMESPACE
from transom.cli.output import ExitCode, Format, fail, print_data, tell
from transom.manifests.install import InstallPart

if TYPE_CHECKING:
    from transom.manifests.values import Image, Payload, Values


def manifests(
    context: typer.Context,
    part: Annotated[
        list[InstallPart] | None, typer.Option("--part", help="Only this part; may be given again. Without it: everything.")
    ] = None,
    controllers: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="Which run, and so need rights: egress, windows, fleet, pods. [default: all but fleet]",
            show_default=False,
        ),
    ] = None,
    cluster_api: Annotated[
        bool, typer.Option("--cluster-api", help="Also fleet, which reads and writes Secrets of every namespace.")
    ] = False,
    openshift: Annotated[
        bool, typer.Option("--openshift", help="Also the roles in OpenShift's own namespaces, and the metrics of hosts.")
    ] = False,
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", envvar="TRANSOM_NAMESPACE", help="Transom's own namespace.", callback=namespace_name),
    ] = NAMESPACE,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            envvar="TRANSOM_IMAGE",
            help="The image to run, with its registry: registry.example/transom:0.1.0, or with @sha256:….",
            show_default=False,
        ),
    ] = None,
    any_registry: Annotated[
        bool,
        typer.Option(
            "--any-registry", help="Take images whose name has no registry. Each node looks for them where it is set up to."
        ),
    ] = False,
    payload_image: Annotated[
        str | None,
        typer.Option(
            "--payload-image",
            metavar="IMAGE",
            help="The image of a payload (transom payload build --image), mounted as a volume: since Kubernetes 1.35.",
        ),
    ] = None,
    payload_copied: Annotated[
        bool, typer.Option("--payload-copied", help="Have an init container copy it instead. It is made with --base.")
    ] = False,
    payload_claim: Annotated[
        str | None,
        typer.Option("--payload-claim", metavar="NAME", help="A PersistentVolumeClaim with a payload's directory."),
    ] = None,
    require_host_keys: Annotated[
        bool, typer.Option("--require-host-keys", help="The operator connects to no host whose key is not known.")
    ] = False,
    metrics_proxy: Annotated[
        str | None,
        typer.Option(
            "--metrics-proxy", metavar="IMAGE", help="Put kube-rbac-proxy, this image, before the metrics: TLS and who may."
        ),
    ] = None,
    payload_kubeadm: Annotated[
        str | None,
        typer.Option(
            "--payload-kubeadm",
            metavar="VERSION",
            help="The shipped payload for kubeadm; each pod fetches it through the proxy.",
        ),
    ] = None,
    payload_cni: Annotated[
        str, typer.Option("--payload-cni", help="calico, flannel or none; of --payload-kubeadm.")
    ] = "calico",
    values: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What the install is to be like, as YAML; - is stdin. What an option says, too, is as the option says.",
        ),
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option("--output-dir", metavar="DIR", help="Write a file for each object, and the kustomization.yaml of them."),
    ] = None,
    olm_bundle: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="Write a bundle, to be this image, and a catalog for the Operator Lifecycle Manager into --output-dir.",
        ),
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.YAML,
) -> None:
    """Print everything needed to install Transom.

    transom manifests --image registry.example/transom:0.1.0 | kubectl apply -f -
    """
    from msgspec.structs import replace

    from transom.manifests.install import objects
    from transom.manifests.values import plain

    for flag, reference in (("--image", image), ("--metrics-proxy", metrics_proxy), ("--payload-image", payload_image)):
        if reference is not None:
            _examine(flag, reference, any_registry=any_registry or flag == "--metrics-proxy")
    given = _read(values)
    source = context.get_parameter_source("image")
    if given.image.registry and source is not None and source.name == "ENVIRONMENT":
        # what the file says of this install is nearer than what the environment says of all
        image = None
    if payload_image is not None or payload_claim is not None or payload_kubeadm is not None or payload_copied:
        payload = _payload(payload_image, payload_claim, payload_kubeadm, payload_cni, copied=payload_copied)
        given = replace(given, payload=payload)
    parts = part or list(InstallPart)
    chosen = _chosen(
        given,
        controllers,
        image,
        metrics_proxy,
        cluster_api=cluster_api,
        openshift=openshift,
        require_host_keys=require_host_keys,
        webhook=InstallPart.WEBHOOK in (part or ()),
    )
    if not (chosen.image.registry or any_registry) and {InstallPart.OPERATOR, InstallPart.WEBHOOK} & set(parts):
        fail(
            "--image: name the image in your registry, such as registry.example/transom:VERSION (or set TRANSOM_IMAGE, or "
            "`image.registry` of the values); --any-registry is transom of this version, wherever nodes find it"
        )
    made = objects(plain(chosen), namespace, part or ())
    if olm_bundle is not None:
        _examine("--olm-bundle", olm_bundle, any_registry=any_registry)
        if output_dir is None or part:
            fail("--olm-bundle: it needs --output-dir, and no --part")
        _write_bundle(output_dir, made, namespace, olm_bundle)
    elif output_dir is not None:
        _write(output_dir, made, namespace)
    elif output is Format.JSON:
        print_data({"apiVersion": "v1", "kind": "List", "items": made}, output)
    else:
        dump(made, sys.stdout)


def everything(namespace: str) -> list[dict[str, Any]]:
    """All that any values make in a cluster; the images are not what they were."""
    from transom.manifests.install import objects
    from transom.manifests.values import Metrics, Values, plain

    most = Values(
        controllers=["egress", "windows", "pods", "fleet"],
        openshift=True,
        metrics=Metrics(proxy="kube-rbac-proxy", service_monitor=True),
    )
    return objects(plain(most), namespace)


def _read(file: str | None) -> "Values":
    from transom.manifests.values import ValuesInvalid, read
    from transom.sources.yaml_text import InvalidText, read_documents

    if file is None:
        return read({})
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        given = [document.value for document in read_documents(data)]
    except OSError as error:
        fail(f"--values {file}: {error.strerror or error}")
    except InvalidText as error:
        fail(f"--values {file}: {error}")
    if len(given) > 1 or not isinstance(given[0] if given else {}, dict):
        fail(f"--values {file}: must be one mapping, such as `image: {{registry: registry.example}}`")
    try:
        return read(given[0] if given else {})
    except ValuesInvalid as error:
        fail(f"--values {file}: {error}")


def _chosen(
    values: "Values",
    controllers: str | None,
    image: str | None,
    metrics_proxy: str | None,
    *,
    cluster_api: bool,
    openshift: bool,
    require_host_keys: bool,
    webhook: bool,
) -> "Values":
    """The values of a file with what the options say."""
    from msgspec.structs import replace

    from transom.manifests.roles import controllers as named

    if controllers is not None:
        try:
            named(controllers)
        except ValueError as error:
            fail(f"--controllers: {error}")
        values = replace(values, controllers=[name.strip() for name in controllers.split(",") if name.strip()])
    if cluster_api and "fleet" not in values.controllers:
        values = replace(values, controllers=[*values.controllers, "fleet"])
    if image is not None:
        values = replace(values, image=_image(image))
    if metrics_proxy is not None:
        values = replace(values, metrics=replace(values.metrics, proxy=metrics_proxy))
    if webhook:
        values = replace(values, webhook=replace(values.webhook, always=True))
    return replace(
        values, openshift=values.openshift or openshift, require_host_keys=values.require_host_keys or require_host_keys
    )


def _examine(flag: str, reference: str, *, any_registry: bool) -> None:
    """See that it is an image that nodes can find. Raises Exit.

    The first part of a name is a registry where it has a dot or a colon, or is `localhost` (github.com/distribution/reference,
    normalize.go, splitDockerDomain).
    """
    from transom.manifests.values import REFERENCE

    if not re.fullmatch(REFERENCE, reference):
        fail(f"{flag}: {reference!r} is no image: for example registry.example/transom:0.1.0, or with @sha256:…")
    registry, slash, _ = reference.partition("/")
    if not any_registry and not (slash and (set(registry) & {".", ":"} or registry == "localhost")):
        fail(f"{flag}: {reference} names no registry, and nodes would look for it in another one: registry.example/{reference}")


def _payload(image: str | None, claim: str | None, kubeadm: str | None, cni: str, *, copied: bool) -> "Payload":
    import msgspec

    from transom.manifests.values import Payload

    ways = {"--payload-image": image, "--payload-claim": claim, "--payload-kubeadm": kubeadm}
    given = [flag for flag, value in ways.items() if value is not None]
    if len(given) > 1:
        fail(f"{given[1]}: the payload comes from {given[0]} already")
    if copied and image is None:
        fail("--payload-copied: name the image by --payload-image")
    if kubeadm is not None:
        from transom.cli.payload import kubeadm_files

        kubeadm_files(cni, kubeadm, flags=("--payload-cni", "--payload-kubeadm"))
        return msgspec.convert({"kubeadm": kubeadm, "cni": cni}, Payload)
    if claim is not None:
        return Payload(volume={"persistentVolumeClaim": {"claimName": claim, "readOnly": True}})
    return Payload(image=image or "", copied=copied)


def _image(reference: str) -> "Image":
    """The parts of a reference that fits `REFERENCE`."""
    from transom.manifests.values import Image

    named, _, digest = reference.partition("@")
    registry, _, last = named.rpartition("/")
    name, _, tag = last.partition(":")
    return Image(registry=registry, name=name, tag=tag, digest=digest)


def _write(directory: Path, objects: list[dict[str, Any]], namespace: str) -> None:
    names = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for one in objects:
            meta = one["metadata"]
            place = [meta["namespace"]] if meta.get("namespace", namespace) != namespace else []
            names.append("-".join([one["kind"].lower(), *place, meta["name"]]) + ".yaml")
            with (directory / names[-1]).open("w", encoding="utf-8") as file:
                dump([one], file)
        kustomization = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": names}
        with (directory / "kustomization.yaml").open("w", encoding="utf-8") as file:
            dump([kustomization], file)
    except OSError as error:
        fail(f"--output-dir {directory}: {error.strerror or error}", ExitCode.NOT_DONE)
    tell(f"{len(names)} objects and kustomization.yaml in {directory}")


def dump(objects: list[dict[str, Any]], file: TextIO) -> None:
    """Write objects as YAML, for people."""
    import yaml

    yaml.dump_all(objects, file, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=110)


def _dumper() -> Any:
    """Dumps without anchors: `kubectl` reads them, people do not."""
    import yaml

    class QuotingDumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return QuotingDumper


def _write_bundle(directory: Path, objects: list[dict[str, Any]], namespace: str, image: str) -> None:
    """The files of a bundle and of a catalog for the Operator Lifecycle Manager, below a directory. Raises Exit."""
    from transom import __version__
    from transom.manifests.grants import NAME
    from transom.manifests.olm import bundle, catalog

    made = bundle(objects, namespace, __version__)
    documents: dict[str, list[dict[str, Any]]] = {
        **{f"bundle/manifests/{name}": [one] for name, one in made.manifests.items()},
        "bundle/metadata/annotations.yaml": [{"annotations": made.annotations}],
        f"catalog/{NAME}/catalog.yaml": catalog(made, image, __version__),
        "beside.yaml": made.beside,
    }
    labels = "".join(f"LABEL {name}={text}\n" for name, text in made.annotations.items())
    try:
        for name, content in documents.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", encoding="utf-8") as file:
                dump(content, file)
        copies = "COPY bundle/manifests /manifests/\nCOPY bundle/metadata /metadata/\n"
        (directory / "bundle.Dockerfile").write_text(f"FROM scratch\n{labels}{copies}", "utf-8")
    except OSError as error:
        fail(f"--output-dir {directory}: {error.strerror or error}", ExitCode.NOT_DONE)
    tell(f"bundle, catalog, bundle.Dockerfile, and beside.yaml, which is applied first, in {directory}")
