"""A fact of another project, and the projects at the versions that were read."""

import msgspec


class Fact(msgspec.Struct, frozen=True):
    """One thing: `says` are the texts that stand in `file` of `repository` at `version` (a commit or a tag)."""

    name: str
    value: str
    repository: str
    version: str
    file: str
    says: tuple[str, ...]


IMAGE_BUILDER = ("kubernetes-sigs/image-builder", "ae63061efb154adbbd4605958c506aae8fc1d03c")
CLOUDBASE_INIT = ("cloudbase/cloudbase-init", "c48d7596bf5e176c72c01fc70d2006d4b84cb573")
INSTALLER = ("cloudbase/cloudbase-init-installer", "798df5ec1a0bf96ff66cfe8fb315c440325a689c")
CAPA = ("kubernetes-sigs/cluster-api-provider-aws", "2cf09d78547d32975570a4b9ba5496bdfe26abeb")
CAPZ = ("kubernetes-sigs/cluster-api-provider-azure", "69ec3a40a818ccbc32b8ce88c84609404d8cb7a2")
CAPV = ("kubernetes-sigs/cluster-api-provider-vsphere", "111a1ba9bc520513125324c90aa3a8b80321fc13")
SIG_WINDOWS_TOOLS = ("kubernetes-sigs/sig-windows-tools", "401ee6fcd8369cd8c293bd361275fdbe6f24ed07")
FLANNEL = ("flannel-io/flannel", "cdf760595c23292fd03ff4daf03638ac1ceef417")
ROLES = "images/capi/ansible/windows/roles"
PACKER = "images/capi/packer"


def of(source: tuple[str, str], file: str, name: str, value: str, *says: str) -> Fact:
    """A fact; where a value stands in the file as it is, it is what the file says."""
    return Fact(name, value, *source, file, says or (value,))
