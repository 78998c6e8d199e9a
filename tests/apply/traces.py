"""What of a host Transom might touch, and what its owner had there before."""

from tests.apply.windows import SERVICES, Windows
from tests.windows.authorities import authorities, der, sha1

from transom.windows.host.queries import ENVIRONMENT, LEDGER
from transom.windows.host.queries import SERVICES as SERVICES_KEY
from transom.windows.parts import certificates
from transom.windows.registry.edits import SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_expand_sz, build_multi_sz

A, B = (rf"{SERVICES_KEY}\{name}" for name in SERVICES)
ROOT, CA = certificates.get_store_path("ROOT"), certificates.get_store_path("CA")
root_1, root_2, issuing = authorities()
OWN = [
    SetValue(A, "Environment", build_multi_sz(["GODEBUG=x=1", "no_proxy=theirs.example", "B=%PATH% é"])),
    SetValue(ENVIRONMENT, "Https_Proxy", build_expand_sz("http://%COMPUTERNAME%:8080")),
    SetValue(rf"{ROOT}\{sha1(root_2)}", "Blob", certificates.build_blob(der(root_2), sha1(root_2))),
]


async def seen(windows: Windows) -> Registry:
    """What Transom might touch; of the stores the keys alone that the tests speak of: Wine fills ROOT by itself."""
    stores = await windows.registry(*(rf"{ROOT}\{sha1(c)}" for c in (root_1, root_2)), rf"{CA}\{sha1(issuing)}", LEDGER)
    return stores.merge_with(await windows.registry(A, B, ENVIRONMENT))
