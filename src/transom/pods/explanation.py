"""What was done to a pod and why, in words: for the audit log of the API server, and for people."""

from collections.abc import Iterable

from transom.pods.patch import Given, Patch

_SHOWN = 8


def proxy_text(patch: Patch) -> str:
    """What became of the proxy variables, in one line. No value is in it."""
    if patch.proxy is not None:
        return f"not given: {patch.proxy}"
    return _given(patch.given)


def ca_text(patch: Patch) -> str:
    """What became of the CAs, in one line."""
    if patch.ca is not None:
        return f"not given: {patch.ca}"
    mounted = [one.container for one in patch.given if one.mounted]
    return f"mounted in {_listed(mounted)}" if mounted else "nothing to do: the containers have it"


def _given(given: Iterable[Given]) -> str:
    added = [one.container for one in given if one.added]
    kept = [f"{one.container} keeps its {_listed(one.kept)}" for one in given if one.kept]
    parts = [f"given to {_listed(added)}"] if added else ["nothing to do: the containers have it"]
    return "; ".join([*parts, *kept[:_SHOWN]])


def _listed(names: Iterable[str]) -> str:
    """Names with commas; of many the first ones."""
    names = list(names)
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
