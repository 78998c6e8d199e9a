"""What `transom capi image` is told."""

import msgspec

from transom.capi.inputs import DEFAULT_VERSION, Daemons, ProviderName


class Download(msgspec.Struct, frozen=True):
    """A file that the build takes from somewhere.

    `variable` is its Packer variable, named as Kubernetes' image-builder names it; `checksum` that of its SHA-256. `check` says
    how a file without one is checked: `published` (a checksum stands beside it at its source) or `signature` (Authenticode).
    `signer` is who has to have signed it then. `sha256` is its checksum where that was recorded for the default URL.
    """

    name: str
    variable: str
    url: str
    checksum: str
    check: str
    file: str
    signer: str = ""
    sha256: str = ""


class ImageInputs(msgspec.Struct, frozen=True):
    """The inputs; `variables` override any Packer variable, URLs and checksums among them."""

    provider: ProviderName
    windows: str = "2022"
    kubernetes_version: str = DEFAULT_VERSION
    daemons: Daemons = "hostprocess"
    variables: dict[str, str] = {}
