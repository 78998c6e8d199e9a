"""Values that another tool should have replaced or decrypted before Transom reads them.

Such a value looks like any other text: as a password it would be set on every host. In the value of a Secret it counts only
where it is the whole value, since a password may hold any of these letters; elsewhere no valid value has them.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from transom.proxy.finding import Path


class _Form(NamedTuple):
    """How the placeholders of a tool look: `whole` as the whole of a value, `within` in another one."""

    whole: re.Pattern[str]
    within: re.Pattern[str]
    message: str


def _build_form(pattern: str, message: str, within: str | None = None) -> _Form:
    return _Form(re.compile(rf"\s*(?:{pattern})\s*\Z", re.DOTALL), re.compile(within or pattern, re.DOTALL), message)


_VARIABLE: Final = r"[A-Z]+(?:_[A-Z0-9]+)*"
"""As people name variables. `$UMMER2024` is a password."""
# fluxcd.io, "flux envsubst"; github.com/argoproj-labs/argocd-vault-plugin, "generate"; github.com/helmfile/vals, "vals eval";
# developer.1password.com, "op inject"; getsops.io, "sops -d"; bank-vaults.dev, "Mutation approaches"
_FORMS: Final = (
    _build_form(
        r"ENC\[AES256_GCM,.*",
        "is encrypted by SOPS: decrypt it first, `sops -d FILE | transom apply -f -`",
        r"ENC\[AES256_GCM,",
    ),
    _build_form(
        r"\$\{\{.*\}\}",
        "is an expression of a pipeline, `${{ … }}`, that was not replaced: let the pipeline write the file that Transom reads",
        r"\$\{\{",
    ),
    _build_form(
        r"\$\{[A-Za-z_][^{}\n]*\}",
        "is a variable, `${…}`, that was not replaced: substitute it first, "
        "`flux envsubst --strict < FILE | transom apply -f -`, or with envsubst",
    ),
    _build_form(
        rf"\${_VARIABLE}",
        "is a variable, `$…`, that was not replaced: substitute it first, `envsubst < FILE | transom apply -f -`",
        rf"\A\s*(?:[a-z]+://)?\${_VARIABLE}(?=[:/\s]|\Z)",
    ),
    _build_form(
        r"\$\([A-Za-z_][A-Za-z0-9_.]*\)",
        "is a variable, `$(…)`, that was not replaced: let the pipeline write the file that Transom reads",
    ),
    _build_form(
        r"\{\{.*\}\}",
        "is a template, `{{ … }}`: render it first, for example `helm template CHART | transom apply -f -`",
        r"\{\{",
    ),
    _build_form(
        r"#\{[A-Za-z_][\w.-]*\}#",
        "is a token, `#{…}#`, that was not replaced: let the pipeline write the file that Transom reads",
    ),
    _build_form(
        r"<[A-Za-z][\w-]*:[^<>\n]+>",
        "is a placeholder of a plugin of Argo CD, `<path:…>`: replace it first, "
        "`argocd-vault-plugin generate FILE | transom apply -f -`",
    ),
    _build_form(
        r"<[A-Za-z][\w .|-]*>",
        "is a placeholder, `<…>`: put the value there, or replace it first, "
        "`argocd-vault-plugin generate FILE | transom apply -f -`",
    ),
    _build_form(
        r"op://[^/\n]+/[^\n]+",
        "is a reference to 1Password, `op://…`: replace it first, `op inject -i FILE | transom apply -f -`",
        r"\A\s*op://",
    ),
    _build_form(
        r"(?:secret)?ref\+[a-z0-9]+://[^\n]*",
        "is a reference of vals, `ref+…`: replace it first, `vals eval -f FILE | transom apply -f -`",
        r"\A\s*(?:secret)?ref\+[a-z0-9]+://",
    ),
    _build_form(
        r"(?:>>)?vault:[\w/.-]+#[\w.${} -]+(?:#\d+)?",
        "is a reference to Vault, `vault:…`, which the Bank-Vaults webhook replaces only in pods: let External Secrets or "
        "Vault's own operator write the Secret",
    ),
)


def find_placeholder(value: str, *, secret: bool) -> str | None:
    """Return why a value is a placeholder, and what to do; None for any other. Nothing of the value is in the sentence."""
    if not ({"$", "{", "<", "[", "/", "#"} & set(value)):
        return None
    return next((form.message for form in _FORMS if (form.whole.match(value) if secret else form.within.search(value))), None)


def is_encrypted(value: Any) -> bool:
    """Return True for an object that SOPS has encrypted: it keeps its own data in it, as `sops`."""
    return isinstance(value, dict) and isinstance(value.get("sops"), dict)


ENCRYPTED: Final = "the object is encrypted by SOPS: decrypt it first, `sops -d FILE | transom apply -f -`"


def without_ciphertext(value: Any) -> Any:
    """Return an encrypted object without what is encrypted of it, and without `sops`."""
    if isinstance(value, dict):
        return {key: without_ciphertext(each) for key, each in value.items() if key != "sops" and not _is_ciphertext(each)}
    if isinstance(value, list):
        return [without_ciphertext(each) for each in value if not _is_ciphertext(each)]
    return value


def _is_ciphertext(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("ENC[AES256_GCM,")


def iter_unresolved(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield where placeholders are in the plain values of an object, and what to do about each."""
    if isinstance(value, str):
        if (message := find_placeholder(value, secret=False)) is not None:
            yield path, message
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from iter_unresolved(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from iter_unresolved(each, (*path, index))
