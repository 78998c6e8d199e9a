"""A certificate that somebody else issues: who connects trusts what it is shown, at each step of a renewal."""

import base64
import datetime
from datetime import UTC

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.entry_points.attacks import build_rsa_key
from tests.pods.table import OWN
from tests.support.waiting import until
from tests.webhook.clusters import PROBED, Admission, plain_pod
from tests.webhook.hostile_keys import PRIVATE_KEYS, build_dh_certificate, build_unknown_curve
from tests.webhook.issuer import Issuer

from transom.common.key_algorithms import MAX_SERVED_KEY, NOT_SERVABLE, is_servable_key
from transom.kube.resources import SECRETS
from transom.proxy.secret import Secret
from transom.webhook.issued_certificate import InvalidIssuedCertificate, compute_issued_rotation_delay, compute_issued_secret
from transom.webhook.webhook_secret import LIVES, IssuedCertificate, WebhookSecret

NOW = datetime.datetime(2026, 6, 1, tzinfo=UTC)
HOSTS = ("transom-webhook.transom-system.svc",)
HOUR = datetime.timedelta(hours=1)
YEAR = datetime.timedelta(days=365)


def next_(
    current: WebhookSecret | None, issued: IssuedCertificate, now: datetime.datetime, trusted: str | None
) -> WebhookSecret:
    return compute_issued_secret(current, issued, HOSTS, now, trusted, LIVES)


def test_a_renewal_by_the_same_authority_is_shown_at_once() -> None:
    issuer = Issuer(NOW)
    first = next_(None, issuer.issue(HOSTS, NOW, NOW + YEAR), NOW, None)
    renewed = issuer.issue(HOSTS, NOW, NOW + YEAR)
    second = next_(first, renewed, NOW, first.authorities)
    assert second.certificate == renewed.certificate
    assert second.authorities == first.authorities
    assert second.hash_key == first.hash_key
    assert next_(second, renewed, NOW, second.authorities) == second
    assert "PRIVATE" not in repr(second)


def test_another_authority_is_trusted_before_what_it_signed_is_shown() -> None:
    old, new = Issuer(NOW), Issuer(NOW)
    first = next_(None, old.issue(HOSTS, NOW - YEAR / 2, NOW + YEAR), NOW, None)
    issued = new.issue(HOSTS, NOW, NOW + YEAR)
    trusting = next_(first, issued, NOW, first.authorities)
    assert (trusting.certificate, trusting.authorities) == (first.certificate, new.authority + old.authority)
    assert 0 < compute_issued_rotation_delay(trusting, issued, NOW, LIVES) <= LIVES.overlap.total_seconds()
    # not before the API server has had the time, nor before the registration has it
    assert next_(trusting, issued, NOW, trusting.authorities) == trusting
    assert next_(trusting, issued, NOW + HOUR, first.authorities).certificate == first.certificate
    shown = next_(trusting, issued, NOW + LIVES.overlap, trusting.authorities)
    assert (shown.certificate, shown.authorities) == (issued.certificate, new.authority + old.authority)
    assert next_(shown, issued, NOW + LIVES.overlap, shown.authorities) == shown
    last = next_(shown, issued, NOW + HOUR, shown.authorities)
    assert (last.certificate, last.authorities) == (issued.certificate, new.authority)


@pytest.mark.parametrize("why", ["ended", "names", "key", "text"])
def test_what_cannot_be_served(why: str) -> None:
    issuer = Issuer(NOW)
    good = issuer.issue(HOSTS, NOW, NOW + YEAR)
    wrong, told = {
        "ended": (issuer.issue(HOSTS, NOW - YEAR, NOW), "it ended at 2026-06-01T00:00:00Z"),
        "names": (issuer.issue(("elsewhere.svc",), NOW, NOW + YEAR), f"it is not for {HOSTS[0]}"),
        "key": (
            IssuedCertificate(good.authorities, good.certificate, issuer.issue(HOSTS, NOW, NOW + YEAR).key),
            "does not match its key",
        ),
        "text": (IssuedCertificate(good.authorities, "x", good.key), "cannot be read"),
    }[why]
    with pytest.raises(InvalidIssuedCertificate, match=told):
        next_(None, wrong, NOW, None)


@pytest.mark.parametrize("name", PRIVATE_KEYS)
def test_a_key_that_no_server_should_load_is_not_loaded(name: str) -> None:
    good = Issuer(NOW).issue(HOSTS, NOW, NOW + YEAR)
    with pytest.raises(InvalidIssuedCertificate, match=NOT_SERVABLE):
        next_(None, IssuedCertificate(good.authorities, good.certificate, Secret(PRIVATE_KEYS[name]().decode())), NOW, None)


def test_a_certificate_for_such_a_key_is_not_looked_into() -> None:
    good = Issuer(NOW).issue(HOSTS, NOW, NOW + YEAR)
    with pytest.raises(InvalidIssuedCertificate, match=NOT_SERVABLE):
        next_(None, IssuedCertificate(good.authorities, build_dh_certificate(good.certificate), good.key), NOW, None)


def test_a_key_on_an_unknown_curve_cannot_be_read() -> None:
    good = Issuer(NOW).issue(HOSTS, NOW, NOW + YEAR)
    with pytest.raises(InvalidIssuedCertificate, match="cannot be read"):
        next_(None, IssuedCertificate(good.authorities, good.certificate, Secret(build_unknown_curve().decode())), NOW, None)


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
@pytest.mark.parametrize("size", [2_048, 8_192])
def test_keys_that_issuers_make_are_servable(form: PrivateFormat, size: int) -> None:
    """RSA up to 8,192 bits (cert-manager, `spec.privateKey.size`), by the length of its text; ECDSA and Ed25519."""
    small = ec.generate_private_key(ec.SECP521R1()).private_bytes(Encoding.PEM, form, NoEncryption()).decode()
    own = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    large = build_rsa_key(size).decode()
    assert [is_servable_key(key) for key in (small, own, large)] == [True, True, True]
    assert len(large) < MAX_SERVED_KEY - 1_000


@pytest.mark.lab
async def test_pods_are_answered_with_what_was_issued(admission: Admission) -> None:
    """First there is none; then another authority takes over. The API server believes what it is shown all the time."""
    now = datetime.datetime.now(UTC)
    name, hosts = "transom-webhook-certificate", (*HOSTS, "127.0.0.1")
    await admission.settings("plain")

    async def put(issued: IssuedCertificate) -> None:
        data = {"ca.crt": issued.authorities, "tls.crt": issued.certificate, "tls.key": issued.key.reveal()}
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
        kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
        await admission.apply(SECRETS, {**kind, "metadata": {"name": name, "namespace": OWN}, "data": encoded})

    async def answered() -> bool:
        code, pod, _ = await admission.post(plain_pod("probe"), PROBED, dry_run=True)
        return code == 201 and any(item["name"] == "HTTP_PROXY" for item in pod["spec"]["containers"][0].get("env", []))

    async def trusted() -> str:
        found = await admission.registration()
        assert found is not None
        return base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"]).decode()

    try:
        async with admission.replica(certificate_secret=name, failure_policy="Fail") as webhook:
            first = Issuer(now).issue(hosts, now - HOUR / 60, now + YEAR)
            await put(first)
            await until(lambda: webhook.certificate == first.certificate)
            await until(answered)
            # made long enough ago for the overlap to be over once the registration has it
            second = Issuer(now).issue(hosts, now - HOUR / 4, now + YEAR)
            await put(second)
            await until(lambda: webhook.certificate == second.certificate)
            assert await trusted() == second.authorities + first.authorities
            await until(answered)
    finally:
        await admission.delete(SECRETS, name, OWN)
