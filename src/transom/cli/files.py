"""Objects and files that a command writes; a file may hold secrets."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def yaml_stream(items: Iterable[Mapping[str, Any]]) -> str:
    """Objects as YAML documents; a text of several lines stands in a block."""
    import yaml

    class ManifestDumper(yaml.CSafeDumper):
        pass

    def text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    ManifestDumper.add_representer(str, text)
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 1 << 20}
    return "".join("---\n" + yaml.dump(item, Dumper=ManifestDumper, **options) for item in items)


def write_private(path: Path, data: bytes) -> None:
    """Readable by the owner alone, from the first byte on; a file that was there is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with naming(path), os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    part.replace(path)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError of the block names `path` where it names nothing, as that of a full disk does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
