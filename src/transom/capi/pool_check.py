"""What is wrong with somebody's own pools of Windows machines (`upstream_pools.FACTS`)."""

from collections.abc import Iterator, Mapping
from typing import Any

from transom.capi import upstream_pools as upstream
from transom.capi import user_data
from transom.capi.providers import PROVIDERS
from transom.proxy.finding import Path, Severity

Object = Mapping[str, Any]
Found = Iterator[tuple[Path, Severity, str]]


def aws(spec: Object, bootstrap: Object) -> Found:
    """Of an AWSMachinePool's `spec`, with the KubeadmConfigSpec of its machines."""
    template = spec.get("awsLaunchTemplate") or {}
    pool = PROVIDERS["aws"].pool
    raw = len(user_data.of_spec(bootstrap, {})) if bootstrap.get("joinConfiguration") else 0
    if pool is not None and raw > pool.limit.most:
        yield ("awsLaunchTemplate",), "error", f"{raw:,} bytes of user data without what Secrets hold; {pool.limit.source}"
    if not template.get("sshKeyName") and "transom-windows-" not in str(template.get("imageLookupFormat", "")):
        message = "the machines have no key pair: cloudbase-init reads no user data, but in images of `transom capi image`"
        by_id = (template.get("ami") or {}).get("id")
        yield ("awsLaunchTemplate", "sshKeyName"), "warning" if by_id else "error", message
    if (template.get("instanceMetadataOptions") or {}).get("httpTokens") == "required":
        message = "cloudbase-init asks EC2's metadata without a session token, and gets no user data: optional"
        yield ("awsLaunchTemplate", "instanceMetadataOptions", "httpTokens"), "error", message


def azure(spec: Object, _: Object) -> Found:
    """Of an AzureMachinePool's `spec`."""
    system = ((spec.get("template") or {}).get("osDisk") or {}).get("osType")
    if system != "Windows":
        yield ("template", "osDisk", "osType"), "error", f"{system!r}: CAPZ takes a pool for Linux where this is not Windows"


def replicas(spec: Object, pool: Object) -> Iterator[str]:
    """Of a MachinePool's `spec` and that of its AWSMachinePool."""
    wanted, smallest, largest = spec.get("replicas", 1), pool.get("minSize", 1), pool.get("maxSize", 1)
    if all(isinstance(number, int) for number in (wanted, smallest, largest)) and not smallest <= wanted <= largest:
        yield f"{wanted}: CAPA makes no pool where minSize is {smallest} and maxSize {largest}"


def scale_set(name: str) -> str:
    """What CAPZ calls the scale set, and begins the names of its computers with, for Windows."""
    return name if len(name) <= int(upstream.AZURE_POOL_NAME.value) else "win-" + name[-5:]
