"""Objects and logs that can be shared: without passwords, keys and tokens. Pure."""

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from transom.proxy.secret import REDACTED, Secret

_USERINFO: Final = re.compile(r"(?<=://)[^\s\"'<>]*@")
_PEM: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_TOKEN: Final = re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*")
"""A JSON Web Token (RFC 7519), as service accounts have: its header begins with `{"`."""
_AUTHORIZATION: Final = re.compile(r"(?i)\b(basic|bearer)\s+[A-Za-z0-9+/=._~-]{8,}")
_BOOTSTRAP: Final = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b")
"""A bootstrap token (Kubernetes, "Authenticating with Bootstrap Tokens")."""
_NAMED: Final = re.compile(r"(?i)password|passwd|token|secret|credential|private|_key$|^key$")
_LEAST: Final = 4
"""The minimum length of a value that is masked everywhere: a shorter one is part of too many words."""
_LEFT_OUT: Final = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")


def _is_secret_field(key: Any) -> bool:
    """Return True if a field or variable of this name is secret; a name that ends in `name` is not."""
    return _NAMED.search(str(key)) is not None and not str(key).lower().endswith("name")


class Masker:
    """Takes out what is secret by its form, and the values of these Secrets wherever they stand, in the forms they may have."""

    def __init__(self, known: Iterable[Secret]) -> None:
        forms: set[str] = set()
        for item in known:
            text = item.reveal()
            for part in {text, text.strip()}:
                if len(part) >= _LEAST:
                    forms |= {part, quote(part, safe=""), base64.b64encode(part.encode()).decode()}
        self._known = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True)))) if forms else None

    def mask_text(self, text: str) -> str:
        """Mask a string of any number of lines."""
        text = _PEM.sub(REDACTED, text)
        if self._known is not None:
            text = self._known.sub(REDACTED, text)
        text = _USERINFO.sub(f"{REDACTED}@", text)
        text = _TOKEN.sub(REDACTED, text)
        return _BOOTSTRAP.sub(REDACTED, _AUTHORIZATION.sub(lambda item: f"{item[1]} {REDACTED}", text))

    def mask_value(self, value: Any) -> Any:
        """Mask an object in plain values; of a Secret and a ConfigMap the keys remain."""
        if isinstance(value, Mapping) and value.get("kind") in ("Secret", "ConfigMap"):
            hidden = {field: dict.fromkeys(data, REDACTED) for field in ("data", "stringData") if (data := value.get(field))}
            rest = {key: each for key, each in value.items() if key not in ("data", "stringData", "binaryData")}
            return {**self._mask_plain(rest), **hidden}
        return self._mask_plain(value)

    def _mask_plain(self, value: Any) -> Any:
        if isinstance(value, Secret):
            return REDACTED
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, Mapping):
            named = _NAMED.search(str(value.get("name") or "")) is not None
            hidden = {key for key in value if _is_secret_field(key) or (named and key == "value")}
            return {
                self.mask_text(str(key)): REDACTED if key in hidden and isinstance(each, str) else self.mask_value(each)
                for key, each in value.items()
                if key not in _LEFT_OUT
            }
        if isinstance(value, list | tuple):
            return [self.mask_value(each) for each in value]
        return value
