"""Programs that set Windows up: features, the firewall, a file's hash, a boot."""

import asyncio
import hashlib
import re

from transom.windows.parts import certificates
from winsim.computer import Invocation
from winsim.filesystem import SimulatedFile

_RULE = re.compile(r'name="([^"]+)"')
_RESTART_REQUIRED = 3010
_NO_SUCH_FEATURE = 0x800F080C - 2**32


async def run_dism(call: Invocation) -> int:
    """Run `dism /online /enable-feature /featurename:NAME`; return 3010 if the host must reboot.

    `Host.features` has the enabled features.
    """
    words = [word.casefold() for word in call.arguments]
    name = next((word.partition(":")[2] for word in words if word.startswith("/featurename:")), "")
    if "/online" not in words or "/enable-feature" not in words or name not in ("containers",):
        call.write_output("Error: 0x800f080c\n\nFeature name is unknown.\n")
        return _NO_SUCH_FEATURE
    call.write_output(
        "Deployment Image Servicing and Management tool\n\nEnabling feature(s)\nThe operation completed successfully.\n"
    )
    if "containers" in call.host.features:
        return 0
    call.host.features_at_boot.add("containers")
    return _RESTART_REQUIRED


async def run_netsh(call: Invocation) -> int:
    """Run `netsh advfirewall firewall add|delete rule name=… localport=…`, which changes `Host.firewall`."""
    words = [word.casefold() for word in call.arguments]
    rule = _RULE.search(call.rest)
    if words[:2] != ["advfirewall", "firewall"] or words[2:4] not in (["add", "rule"], ["delete", "rule"]) or rule is None:
        call.write_output("The following command was not found.\n")
        return 1
    if words[2] == "delete":
        return 0 if call.host.firewall.pop(rule[1], None) else 1
    call.host.firewall[rule[1]] = next((word.partition("=")[2] for word in words if word.startswith("localport=")), "any")
    call.write_output("Ok.\n\n")
    return 0


async def run_certutil(call: Invocation) -> int:
    """Run `certutil -hashfile FILE SHA256` or `certutil -store Root SHA1`."""
    words = call.arguments
    if [word.casefold() for word in words[:2]] == ["-store", "root"] and len(words) == 3:
        return _print_certificate(call, words[2])
    node = call.host.files.find(call.resolve_path(words[1])) if len(words) == 3 and words[0].casefold() == "-hashfile" else None
    if not isinstance(node, SimulatedFile) or words[2].upper() != "SHA256":
        call.write_output("CertUtil: -hashfile command FAILED: 0x80070002 (WIN32: 2 ERROR_FILE_NOT_FOUND)\n")
        return 2
    digest = hashlib.sha256(node.data).hexdigest()
    call.write_output(f"SHA256 hash of {words[1]}:\n{digest}\nCertUtil: -hashfile command completed successfully.\n")
    return 0


def _print_certificate(call: Invocation, sha1: str) -> int:
    """Print a certificate of LocalMachine's ROOT store if its blob holds a certificate with this hash, as crypt32 does."""
    der = certificates.parse_certificate(
        call.host.registry.find_value(rf"{certificates.get_store_path(certificates.ROOT)}\{sha1}", "Blob")
    )
    if der is None or hashlib.sha1(der, usedforsecurity=False).hexdigest() != sha1.casefold():
        call.write_output(
            "CertUtil: -store command FAILED: 0x80090011 (-2146893807 NTE_NOT_FOUND)\nCertUtil: Object was not found.\n"
        )
        return 0x80090011 - 2**32
    call.write_output('Root "Trusted Root Certification Authorities"\n================ Certificate 0 ================\n')
    call.write_output(f"Cert Hash(sha1): {sha1.casefold()}\nCertUtil: -store command completed successfully.\n")
    return 0


async def run_shutdown(call: Invocation) -> int:
    """Run `shutdown /r /t SECONDS`, which reboots the host."""
    words = [word.casefold() for word in call.arguments]
    if "/r" not in words or "/t" not in words:
        call.write_error("The parameter is incorrect.(87)\n")
        return 87
    seconds = float(words[words.index("/t") + 1])
    host = call.host

    async def boot() -> None:
        await host.sleep(seconds)
        await host.boot()

    host.booting = asyncio.ensure_future(boot())
    return 0
