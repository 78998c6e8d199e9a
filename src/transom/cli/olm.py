"""The files of a bundle and of a catalog for the Operator Lifecycle Manager (`transom manifests --olm-bundle`)."""

from pathlib import Path
from typing import Any

from transom import __version__
from transom.cli.manifests import dump
from transom.cli.output import ExitCode, fail, tell
from transom.manifests.grants import NAME
from transom.manifests.olm import bundle, catalog


def write(directory: Path, objects: list[dict[str, Any]], namespace: str, image: str) -> None:
    """Write them below a directory. Raises Exit."""
    release = __version__
    made = bundle(objects, namespace, release)
    documents: dict[str, list[dict[str, Any]]] = {
        **{f"bundle/manifests/{name}": [one] for name, one in made.manifests.items()},
        "bundle/metadata/annotations.yaml": [{"annotations": made.annotations}],
        f"catalog/{NAME}/catalog.yaml": catalog(made, image, release),
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
