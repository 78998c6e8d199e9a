"""Kubeconfigs of workload clusters as plain values: texts of whoever may write the Secret, so they are held to limits."""

from typing import Any, Final

from transom.kube.errors import ConfigurationError
from transom.sources.yaml_text import InvalidText, read_documents

MAX_BYTES: Final = 256 << 10
MAX_NODES: Final = 10_000
"""Values in one. To read so many takes a tenth of a second."""


def read(data: bytes, source: str) -> Any:
    """The first document. Raises ConfigurationError; its message names `source`, and shows nothing of the text."""
    if len(data) > MAX_BYTES:
        raise ConfigurationError(f"{source}: the kubeconfig has {len(data):,} bytes; at most {MAX_BYTES:,} are read")
    try:
        return next((document.value for document in read_documents(data, MAX_NODES)), None)
    except InvalidText as error:
        where = f", line {error.line}" if error.line else ""
        raise ConfigurationError(f"{source}{where}: {error.reason}") from error
