"""Objects and logs as they may be sent to somebody else: without passwords, keys and tokens. Pure."""

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
"""Letters of a value that is looked for wherever it stands: a shorter one is a part of half of all words."""
_LEFT_OUT: Final = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")


def _hides(key: Any) -> bool:
    """Whether the text of a field or a variable of this name is secret; one that ends in `name` names something."""
    return _NAMED.search(str(key)) is not None and not str(key).lower().endswith("name")


class Masker:
    """Takes out what is secret by its form, and the values of these Secrets wherever they stand, in the forms they may have."""

    def __init__(self, known: Iterable[Secret]) -> None:
        forms: set[str] = set()
        for one in known:
            text = one.reveal()
            for part in {text, text.strip()}:
                if len(part) >= _LEAST:
                    forms |= {part, quote(part, safe=""), base64.b64encode(part.encode()).decode()}
        self._known = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True)))) if forms else None

    def text(self, text: str) -> str:
        """A text, of as many lines as there are."""
        text = _PEM.sub(REDACTED, text)
        if self._known is not None:
            text = self._known.sub(REDACTED, text)
        text = _USERINFO.sub(f"{REDACTED}@", text)
        text = _TOKEN.sub(REDACTED, text)
        return _BOOTSTRAP.sub(REDACTED, _AUTHORIZATION.sub(lambda found: f"{found[1]} {REDACTED}", text))

    def value(self, value: Any) -> Any:
        """An object in plain values; of a Secret the names of its keys are left, of a ConfigMap those, too."""
        if isinstance(value, Mapping) and value.get("kind") in ("Secret", "ConfigMap"):
            hidden = {field: dict.fromkeys(given, REDACTED) for field in ("data", "stringData") if (given := value.get(field))}
            rest = {key: each for key, each in value.items() if key not in ("data", "stringData", "binaryData")}
            return {**self._plain(rest), **hidden}
        return self._plain(value)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Secret):
            return REDACTED
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            named = _NAMED.search(str(value.get("name") or "")) is not None
            hidden = {key for key in value if _hides(key) or (named and key == "value")}
            return {
                self.text(str(key)): REDACTED if key in hidden and isinstance(each, str) else self.value(each)
                for key, each in value.items()
                if key not in _LEFT_OUT
            }
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value]
        return value
