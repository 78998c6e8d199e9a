"""How propagated settings stand in a workload cluster, by its own word, and what is said of it at home. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from transom.controllers.propagation import propagated
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.kube.store import ObjectKey
from transom.proxy.settings import Egress
from transom.shown import shown
from transom.sources.core_objects import at

_SHOWN: Final = 3
_LONGEST: Final = 200
"""Characters of another cluster's word."""
_SPOKEN_OF: Final = ("Valid", "TrustBundleValid", "Ready", "PodsInjected")


class ClusterStanding(msgspec.Struct, frozen=True):
    """One cluster: why nothing could be brought there; else whether its pods are withheld, and what it says itself.

    `word` is empty where a Transom there says that all is well; `heard` whether it has said anything of these settings.
    """

    failure: str = ""
    withheld: bool = False
    word: str = ""
    heard: bool = False

    @property
    def settled(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.heard and not self.word and not self.failure


def read(egress: Egress, there: dict[str, Any] | None) -> ClusterStanding:
    """What an EgressProxy of another cluster says of itself. It is somebody else's text: bounded, and in letters."""
    generation, listed = at(there, ("metadata", "generation")), at(there, ("status", "conditions"))
    current = {
        str(one.get("type")): one
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, dict) and one.get("observedGeneration") in (None, generation)
    }
    withheld = propagated.withholds(egress, there)
    bad = next((one for name in _SPOKEN_OF if (one := current.get(name)) and one.get("status") == "False"), None)
    if bad is None or (withheld and bad.get("type") == "PodsInjected"):
        return ClusterStanding(withheld=withheld, heard="Valid" in current)
    text = shown(f"{bad.get('type')}={bad.get('reason')}: {bad.get('message')}")
    return ClusterStanding(withheld=withheld, word=text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…", heard=True)


def conditions(standings: Mapping[ObjectKey, ClusterStanding]) -> Conditions:
    """One word on all clusters that one EgressProxy holds for."""
    named = sorted(standings.items(), key=lambda item: str(item[0]))
    count = f"{len(named):,}"
    failed = [one.failure for _, one in named if one.failure]
    if failed:
        return _false("Failed", f"not in {len(failed):,} of {count}: {_list(failed, '; ')}")
    withheld = [_name(key) for key, one in named if one.withheld]
    if withheld:
        return _false(
            "PodsWithheld",
            f"spec.propagated.pods.namespaceSelector: not set, and the proxy has credentials, which whoever reads Secrets in a"
            f" namespace can read: pods get no proxy in {len(withheld):,} of {count} clusters ({_list(withheld)}) until it, or"
            " spec.pods of the EgressProxy there, says which namespaces may have them",
        )
    words = [f"{_name(key)} says {one.word}" for key, one in named if one.word]
    if words:
        return _false(
            "NotReady", f"in all of {count} clusters that ask for it, and {len(words):,} not ready: {_list(words, '; ')}"
        )
    silent = [_name(key) for key, one in named if not one.heard]
    text = f"in all of {count} clusters that ask for it"
    if silent:
        text += f"; no word of a Transom there yet: {_list(silent)}"
    return {"Propagated": Condition("True", "Propagated", text)}


def _false(reason: str, message: str) -> Conditions:
    return {"Propagated": Condition("False", reason, message)}


def _name(key: ObjectKey) -> str:
    return "/".join(filter(None, key))


def _list(items: Iterable[str], between: str = ", ") -> str:
    items = list(items)
    more = len(items) - _SHOWN
    return between.join(items[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
