"""Programs that set Windows up: features, the firewall, a file's hash, a boot."""

import asyncio
import hashlib
import re

from transom.windows.parts import certificates
from winsim.filesystem import SimulatedFile
from winsim.processes import Invocation

_RULE = re.compile(r'name="([^"]+)"')
_RESTART_REQUIRED = 3010
_NO_SUCH_FEATURE = 0x800F080C - 2**32


async def dism(call: Invocation) -> int:
    """`dism /online /enable-feature /featurename:NAME`: 3010 when the host has to boot for it, as `Host.features` says."""
    words = [word.casefold() for word in call.arguments]
    name = next((word.partition(":")[2] for word in words if word.startswith("/featurename:")), "")
    if "/online" not in words or "/enable-feature" not in words or name not in ("containers",):
        call.out("Error: 0x800f080c\n\nFeature name is unknown.\n")
        return _NO_SUCH_FEATURE
    call.out("Deployment Image Servicing and Management tool\n\nEnabling feature(s)\nThe operation completed successfully.\n")
    if "containers" in call.host.features:
        return 0
    call.host.features_at_boot.add("containers")
    return _RESTART_REQUIRED


async def netsh(call: Invocation) -> int:
    """`netsh advfirewall firewall add|delete rule name=… localport=…`: `Host.firewall`."""
    words = [word.casefold() for word in call.arguments]
    rule = _RULE.search(call.rest)
    if words[:2] != ["advfirewall", "firewall"] or words[2:4] not in (["add", "rule"], ["delete", "rule"]) or rule is None:
        call.out("The following command was not found.\n")
        return 1
    if words[2] == "delete":
        return 0 if call.host.firewall.pop(rule[1], None) else 1
    call.host.firewall[rule[1]] = next((word.partition("=")[2] for word in words if word.startswith("localport=")), "any")
    call.out("Ok.\n\n")
    return 0


async def certutil(call: Invocation) -> int:
    """`certutil -hashfile FILE SHA256`, `certutil -store Root SHA1`."""
    words = call.arguments
    if [word.casefold() for word in words[:2]] == ["-store", "root"] and len(words) == 3:
        return _stored(call, words[2])
    node = call.host.files.find(call.absolute(words[1])) if len(words) == 3 and words[0].casefold() == "-hashfile" else None
    if not isinstance(node, SimulatedFile) or words[2].upper() != "SHA256":
        call.out("CertUtil: -hashfile command FAILED: 0x80070002 (WIN32: 2 ERROR_FILE_NOT_FOUND)\n")
        return 2
    digest = hashlib.sha256(node.data).hexdigest()
    call.out(f"SHA256 hash of {words[1]}:\n{digest}\nCertUtil: -hashfile command completed successfully.\n")
    return 0


def _stored(call: Invocation, sha1: str) -> int:
    """A certificate of LocalMachine's ROOT, as crypt32 reads it: its blob has the hash, and what has it."""
    der = certificates.certificate(call.host.registry.value(rf"{certificates.store(certificates.ROOT)}\{sha1}", "Blob"))
    if der is None or hashlib.sha1(der, usedforsecurity=False).hexdigest() != sha1.casefold():
        call.out("CertUtil: -store command FAILED: 0x80090011 (-2146893807 NTE_NOT_FOUND)\nCertUtil: Object was not found.\n")
        return 0x80090011 - 2**32
    call.out('Root "Trusted Root Certification Authorities"\n================ Certificate 0 ================\n')
    call.out(f"Cert Hash(sha1): {sha1.casefold()}\nCertUtil: -store command completed successfully.\n")
    return 0


async def shutdown(call: Invocation) -> int:
    """`shutdown /r /t SECONDS`: the host boots."""
    words = [word.casefold() for word in call.arguments]
    if "/r" not in words or "/t" not in words:
        call.error("The parameter is incorrect.(87)\n")
        return 87
    seconds = float(words[words.index("/t") + 1])
    host = call.host

    async def boot() -> None:
        await host.sleep(seconds)
        await host.boot()

    host.booting = asyncio.ensure_future(boot())
    return 0
