"""Egress settings with everything in them that something on the way could stumble over."""

from cryptography.hazmat.primitives.serialization import Encoding
from tests.windows.authorities import authorities

from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import parse_bundle

PASSWORD = "hunter2%25%5E%26%7B%7B%25%7D"
URL = f"http://alice:{PASSWORD}@proxy.example.com:3128"
PEM = "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in authorities())
EGRESS = Egress(
    http_proxy=Secret(URL),
    https_proxy=Secret(URL),
    no_proxy="cluster.local,10.96.0.0/12,192.168.0.0/16,prod.example.com,svc,127.0.0.1,localhost",
    trust=parse_bundle(PEM).certificates,
)
