"""Lets cloudbase-init fetch the bootstrap data that Cluster API Provider AWS keeps in a secret store.

The provider's user data is then a multi-part document: a `text/cloud-boothook` part, which is a shell script for Linux that
names region, secrets and their number, and an include of the file that it makes. cloudbase-init ignores both. This class takes
the place of its plugin for the first (user_data_plugins of cloudbase-init.conf): it fetches what the script would, deletes it
from the store as the script does, and hands it on. It runs in cloudbase-init's own Python, with what that has.
"""

from __future__ import annotations

import base64
import datetime
import functools
import gzip
import hashlib
import hmac
import json
import pathlib
import re
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from email.message import Message
from typing import Any, TypeVar

import certifi
import requests
from cloudbaseinit.metadata import factory  # type: ignore[import-untyped]
from cloudbaseinit.plugins.common import userdata  # type: ignore[import-untyped]
from cloudbaseinit.plugins.common.userdataplugins import base  # type: ignore[import-untyped]

METADATA = "http://169.254.169.254"
TRIES = 10
PAUSE = 10
TIMEOUT = 30
SETTINGS = pathlib.Path(__file__).with_suffix(".json")
"""The settings of the image to reach the store, if any: `proxy`, `ca` (PEM). The machine's own proxy is in what is fetched."""
_TOKEN_SECONDS = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}


class FetchError(Exception):
    """The bootstrap data could not be fetched; nothing of it is in the message."""


class BoothookPlugin(base.BaseUserDataPlugin):  # type: ignore[misc]
    """The part that says where the bootstrap data is."""

    def __init__(self) -> None:
        super().__init__("text/cloud-boothook")

    def process(self, part: Message) -> int:
        """Fetch the data, delete it in the store, and process it as if it had been the user data."""
        payload = part.get_payload(decode=True)
        script = payload.decode() if isinstance(payload, bytes) else ""
        settings = {name: _read_setting(script, name) for name in ("REGION", "SECRET_PREFIX", "CHUNKS")}
        kind = ParameterStore if "aws ssm " in script else SecretsManager
        store = kind(settings["REGION"], _read_endpoint(script))
        names = [kind.NAME.format(settings["SECRET_PREFIX"], number) for number in range(int(settings["CHUNKS"]))]
        data = gzip.decompress(kind.join_parts([_retry(functools.partial(store.get, name)) for name in names]))
        for name in names:
            _retry(functools.partial(store.delete, name))
        service = factory.get_metadata_service()
        # the plugin's way for data that is no multi-part document: its templates, then cloud-config
        status, reboot = userdata.UserDataPlugin()._process_non_multi_part(data, service)
        return 1000 + (1 if reboot else 0) + (2 if status == userdata.base.PLUGIN_EXECUTE_ON_NEXT_BOOT else 0)


class SecretsManager:
    """AWS Secrets Manager (API 2017-10-17): GetSecretValue, DeleteSecret."""

    SERVICE = "secretsmanager"
    TARGET = "secretsmanager"
    NAME = "{}-{}"

    def __init__(self, region: str, endpoint: str | None = None) -> None:
        self._region, self._endpoint = region, endpoint

    def get(self, name: str) -> bytes:
        """Return the bytes of one secret."""
        return base64.b64decode(self._call_api("GetSecretValue", {"SecretId": name})["SecretBinary"])

    def delete(self, name: str) -> None:
        """Without a time in which it could be had back."""
        self._call_api("DeleteSecret", {"SecretId": name, "ForceDeleteWithoutRecovery": True})

    @staticmethod
    def join_parts(parts: Iterable[bytes]) -> bytes:
        """Return the gzipped data of the parts."""
        return b"".join(parts)

    def _call_api(self, action: str, body: Mapping[str, Any]) -> dict[str, Any]:
        payload = json.dumps(body).encode()
        suffix = ".cn" if self._region.startswith("cn-") else ""
        url = self._endpoint or f"https://{self.SERVICE}.{self._region}.amazonaws.com{suffix}"
        credentials = read_instance_credentials()
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "Host": urllib.parse.urlsplit(url).netloc,
            "X-Amz-Date": datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ"),
            "X-Amz-Security-Token": credentials["Token"],
            "X-Amz-Target": f"{self.TARGET}.{action}",
        }
        headers["Authorization"] = build_authorization("POST", "/", headers, payload, self._region, self.SERVICE, credentials)
        answer = requests.post(url + "/", data=payload, headers=headers, timeout=TIMEOUT, **_read_connection())
        if answer.status_code != 200:
            raise FetchError(f"{self.SERVICE} {action}: HTTP {answer.status_code}")
        result: dict[str, Any] = answer.json() if answer.content else {}
        return result


class ParameterStore(SecretsManager):
    """AWS Systems Manager's parameters (API 2014-11-06): GetParameter, DeleteParameter."""

    SERVICE = "ssm"
    TARGET = "AmazonSSM"
    NAME = "{}/{}"

    def get(self, name: str) -> bytes:
        """Return the text of one parameter."""
        value: str = self._call_api("GetParameter", {"Name": name, "WithDecryption": True})["Parameter"]["Value"]
        return value.encode()

    def delete(self, name: str) -> None:
        """Delete one parameter."""
        self._call_api("DeleteParameter", {"Name": name})

    @staticmethod
    def join_parts(parts: Iterable[bytes]) -> bytes:
        """Return the gzipped data, which was encoded in base64 before it was split."""
        return base64.b64decode(b"".join(parts))


def _read_connection() -> dict[str, Any]:
    settings = json.loads(SETTINGS.read_text("utf-8")) if SETTINGS.exists() else {}
    way: dict[str, Any] = {}
    if settings.get("proxy"):
        way["proxies"] = {"http": settings["proxy"], "https": settings["proxy"]}
    if settings.get("ca"):
        bundle = SETTINGS.with_suffix(".pem")
        bundle.write_text(pathlib.Path(certifi.where()).read_text("utf-8") + settings["ca"], "utf-8")
        way["verify"] = str(bundle)
    return way


def read_instance_credentials() -> dict[str, str]:
    """Those of the instance's role (EC2: "Use IMDSv2", "Retrieve security credentials from instance metadata")."""
    token = requests.put(f"{METADATA}/latest/api/token", headers=_TOKEN_SECONDS, timeout=TIMEOUT).text
    headers = {"X-aws-ec2-metadata-token": token}
    path = f"{METADATA}/latest/meta-data/iam/security-credentials/"
    role = requests.get(path, headers=headers, timeout=TIMEOUT).text.splitlines()[0]
    credentials: dict[str, str] = requests.get(path + role, headers=headers, timeout=TIMEOUT).json()
    return credentials


def build_authorization(
    method: str,
    path: str,
    headers: Mapping[str, str],
    payload: bytes,
    region: str,
    service: str,
    credentials: Mapping[str, str],
) -> str:
    """Build the header that signs a request without a query.

    Source: AWS, "Create a signed AWS API request", Signature Version 4.
    """
    names = sorted(headers, key=str.lower)
    signed = ";".join(name.lower() for name in names)
    canonical = "\n".join(
        [
            method,
            path,
            "",
            *(f"{name.lower()}:{headers[name].strip()}" for name in names),
            "",
            signed,
            hashlib.sha256(payload).hexdigest(),
        ]
    )
    date = headers["X-Amz-Date"]
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = b"AWS4" + credentials["SecretAccessKey"].encode()
    for part in (date[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    access = credentials["AccessKeyId"]
    return f"AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={signed}, Signature={signature}"


def _read_setting(script: str, name: str) -> str:
    match = re.search(rf'^{name}="([A-Za-z0-9./_-]+)"$', script, re.MULTILINE)
    if match is None:
        raise FetchError(f"the boothook sets no {name}: it is not that of Cluster API Provider AWS")
    return match[1]


def _read_endpoint(script: str) -> str | None:
    match = re.search(r'^\s*ENDPOINT="--endpoint-url (https://[A-Za-z0-9.:/-]+)"$', script, re.MULTILINE)
    return match[1].rstrip("/") if match else None


_T = TypeVar("_T")


def _retry(action: Callable[[], _T]) -> _T:
    """Repeated while it fails: the role's credentials, and a secret that was just made, may take a while to be there."""
    for _ in range(TRIES):
        try:
            return action()
        except (requests.RequestException, FetchError, KeyError, ValueError, IndexError):
            time.sleep(PAUSE)
    raise FetchError("the bootstrap data could not be fetched from the secret store")
