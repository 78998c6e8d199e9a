"""What was done to a pod and why, in words: for the audit log of the API server, and for people."""

from collections.abc import Iterable, Sequence

from transom.pods.decision import EXCLUDE_CONTAINERS
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


def _given(given: Sequence[Given]) -> str:
    added = [one.container for one in given if one.added]
    excluded = [one.container for one in given if one.excluded]
    kept = [f"{one.container} keeps its {_listed(one.kept)}" for one in given if one.kept]
    rest = kept[:_SHOWN]
    if excluded:
        rest.append(f"annotation {EXCLUDE_CONTAINERS} leaves out {_listed(excluded)}")
    if added:
        return "; ".join([f"given to {_listed(added)}", *rest])
    return f"nothing to do: {'; '.join(rest) or 'the containers have it'}"


def _listed(names: Iterable[str]) -> str:
    """Names with commas; of many the first ones."""
    names = list(names)
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
