"""The steps of a rotation, one after the other, with what a client trusts at each of them."""

import datetime
import ssl
from datetime import UTC

import pytest
from cryptography import x509
from tests.webhook.hostile_keys import PRIVATE_KEYS, build_dh_certificate, build_unknown_curve

from transom.proxy.secret import Secret
from transom.webhook.certificates import compute_next_secret, compute_rotation_delay, get_expiry, parse_matching_secret
from transom.webhook.webhook_secret import LIVES, WebhookSecret

NOW = datetime.datetime(2026, 6, 1, tzinfo=UTC)
HOSTS = ("transom-webhook.transom-system.svc", "10.0.0.1")
DAY = datetime.timedelta(days=1)


def made(now: datetime.datetime = NOW) -> WebhookSecret:
    return compute_next_secret(None, HOSTS, now, None)


def trusts(authorities: str, held: WebhookSecret) -> bool:
    """Whether OpenSSL, trusting these authorities, takes what is served for the name that it is called by."""
    serving = x509.load_pem_x509_certificate(held.certificate.encode())
    for pem_x509_certificate in x509.load_pem_x509_certificates(authorities.encode()):
        try:
            serving.verify_directly_issued_by(pem_x509_certificate)
        except Exception:  # noqa: BLE001  # any of its errors is a no
            continue
        return True
    return False


def test_what_is_made_from_nothing() -> None:
    held = made()
    assert trusts(held.authorities, held)
    assert parse_matching_secret(held.to_data()) == held
    assert compute_next_secret(held, HOSTS, NOW, held.authorities) is held
    names = x509.load_pem_x509_certificate(held.certificate.encode()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert [str(item.value) for item in names.value] == list(HOSTS)
    assert ssl.create_default_context(cadata=held.authorities).get_ca_certs()
    assert "PRIVATE" not in repr(held)
    assert len(held.hash_key.reveal()) == 64


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "tls.crt", "tls.key", "hash.key"])
@pytest.mark.parametrize("value", [None, "", "x", "other"])
def test_a_secret_that_is_damaged_is_none(name: str, value: str | None) -> None:
    data, other = made().to_data(), made().to_data()
    if value is None:
        del data[name]
    else:
        data[name] = other[name] if value == "other" else Secret(value)
    damaged = parse_matching_secret(data)
    assert (damaged is None) == (name != "hash.key" or value in (None, ""))


@pytest.mark.parametrize("name", ["ca.key", "tls.key"])
@pytest.mark.parametrize("kind", [*PRIVATE_KEYS, "an unknown curve"])
def test_a_secret_with_a_key_that_transom_does_not_make_is_damaged(name: str, kind: str) -> None:
    data = made().to_data()
    data[name] = Secret(PRIVATE_KEYS.get(kind, build_unknown_curve)().decode())
    assert parse_matching_secret(data) is None


@pytest.mark.parametrize("name", ["ca.crt", "tls.crt"])
def test_a_secret_with_a_certificate_that_transom_does_not_make_is_damaged(name: str) -> None:
    """An authority behind the newest one, too: it would be loaded to check who signed."""
    data = made().to_data()
    data[name] = Secret((data[name].reveal() if name == "ca.crt" else "") + build_dh_certificate(data[name].reveal()))
    assert parse_matching_secret(data) is None


def test_the_serving_certificate_is_renewed_in_time_by_the_same_authority() -> None:
    held = made()
    early, late = NOW + LIVES.serving * 0.74, NOW + LIVES.serving * 0.76
    assert compute_next_secret(held, HOSTS, early, held.authorities) is held
    renewed = compute_next_secret(held, HOSTS, late, held.authorities)
    assert renewed.authorities == held.authorities
    assert renewed.hash_key == held.hash_key
    assert get_expiry(renewed) > get_expiry(held)
    assert trusts(held.authorities, renewed)


def test_another_name_makes_another_certificate() -> None:
    held = made()
    renamed = compute_next_secret(held, ("elsewhere.example",), NOW, held.authorities)
    assert renamed.certificate != held.certificate
    assert compute_next_secret(renamed, ("elsewhere.example",), NOW, held.authorities) is renamed


def test_the_authority_is_rotated_with_an_overlap() -> None:
    first = made()
    now = NOW + LIVES.authority * 0.76
    # its own certificate has been renewed meanwhile
    first = compute_next_secret(first, HOSTS, NOW + LIVES.authority * 0.74, first.authorities)
    both = compute_next_secret(first, HOSTS, now, first.authorities)
    assert both.authorities.endswith(first.authorities)
    assert both.authorities.count("BEGIN") == 2
    assert both.certificate == first.certificate
    # not before it has been trusted for a while, and by the registration
    assert compute_next_secret(both, HOSTS, now, both.authorities) is both
    later = now + LIVES.overlap
    assert compute_next_secret(both, HOSTS, later, first.authorities) is both
    signed = compute_next_secret(both, HOSTS, later, both.authorities)
    assert signed.certificate != both.certificate
    assert not trusts(first.authorities, signed)
    assert trusts(both.authorities, signed)
    assert trusts(both.authorities, both)
    # not before every replica shows the new one
    assert compute_next_secret(signed, HOSTS, later, signed.authorities) is signed
    assert 1 <= compute_rotation_delay(signed, later) <= LIVES.overlap.total_seconds()
    done = compute_next_secret(signed, HOSTS, later + LIVES.overlap, signed.authorities)
    assert done.authorities.count("BEGIN") == 1
    assert trusts(done.authorities, signed)
    assert done.certificate == signed.certificate
    assert compute_next_secret(done, HOSTS, later + LIVES.overlap, done.authorities) is done
    assert done.hash_key == first.hash_key


def test_what_ended_is_made_anew() -> None:
    held = made()
    after = NOW + LIVES.authority + DAY
    fresh = compute_next_secret(held, HOSTS, after, held.authorities)
    assert get_expiry(fresh) > after
    assert fresh.hash_key == held.hash_key
    assert trusts(fresh.authorities, fresh)
    # a serving certificate that ended while nobody ran does not wait
    after = NOW + LIVES.serving + DAY
    assert get_expiry(compute_next_secret(held, HOSTS, after, held.authorities)) > after
