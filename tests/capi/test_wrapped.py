"""User data as providers' own functions hand it on (`scripts/answers`), and as the machines of the tests get it."""

import base64
import gzip
from pathlib import Path
from typing import Any

import yaml
from tests.capi.instances import NAME, guest_info, rendered

from transom.capi.check import upstream
from transom.capi.providers import nutanix
from transom.capi.providers.provider_table import PROVIDERS
from transom.capi.worker import user_data

WRAPPED: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("wrapped.yaml").read_text("utf-8"))
GIVEN = WRAPPED["given"].encode()


def answer(provider: str) -> Any:
    return WRAPPED["answers"][provider]["answer"]


def test_machines_of_the_tests_get_what_providers_hand_on() -> None:
    assert WRAPPED["machine"] == NAME
    assert gzip.decompress(base64.b64decode(answer("aws"))) == GIVEN
    assert base64.b64decode(answer("azure")) == GIVEN
    assert answer("vsphere") == guest_info("userdata", GIVEN)
    assert base64.b64decode(answer("nutanix")) == rendered(GIVEN)


def test_what_is_counted_is_what_they_hand_on() -> None:
    """In base64 or not, gzipped or not, as each provider's limit says."""
    handed_on = {"vsphere": answer("vsphere")["guestinfo.userdata"], "nutanix": base64.b64encode(rendered(GIVEN)).decode()}
    for name, text in handed_on.items():
        given = GIVEN if name == "vsphere" else rendered(GIVEN)
        assert user_data.measure_size(given, PROVIDERS[name].limit) == len(text)
    assert PROVIDERS["aws"].limit.gzip == base64.b64decode(answer("aws")).startswith(b"\x1f\x8b")


def test_the_answers_are_of_the_versions_that_the_table_names() -> None:
    named = dict((upstream.CAPA, upstream.CAPZ, upstream.CAPV, nutanix.CAPX))
    assert {item["repository"]: item["version"] for item in WRAPPED["answers"].values()} == named
