"""The state of propagated settings as a workload cluster reports it, and the resulting conditions. Pure."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from transom.common.counting import format_first
from transom.common.escaping import escape_unprintable
from transom.controllers.propagation import propagated_objects
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.kube.store import ObjectKey
from transom.proxy.settings import Egress
from transom.sources.core_objects import get_value_at

_SHOWN: Final = 3
_LONGEST: Final = 200
"""Characters of another cluster's word."""
_SPOKEN_OF: Final = ("Valid", "TrustBundleValid", "Ready", "PodsInjected")


class PropagationState(msgspec.Struct, frozen=True):
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


def read_propagation_state(egress: Egress, live_proxy: dict[str, Any] | None) -> PropagationState:
    """Read the status of an EgressProxy in another cluster. Its texts are untrusted: bounded, and of printable characters."""
    generation, listed = (
        get_value_at(live_proxy, ("metadata", "generation")),
        get_value_at(live_proxy, ("status", "conditions")),
    )
    current = {
        str(item.get("type")): item
        for item in (listed if isinstance(listed, list) else ())
        if isinstance(item, dict) and item.get("observedGeneration") in (None, generation)
    }
    withheld = propagated_objects.is_proxy_withheld(egress, live_proxy)
    bad = next(
        (condition for name in _SPOKEN_OF if (condition := current.get(name)) and condition.get("status") == "False"), None
    )
    if bad is None or (withheld and bad.get("type") == "PodsInjected"):
        return PropagationState(withheld=withheld, heard="Valid" in current)
    text = escape_unprintable(f"{bad.get('type')}={bad.get('reason')}: {bad.get('message')}")
    return PropagationState(withheld=withheld, word=text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…", heard=True)


def build_conditions(standings: Mapping[ObjectKey, PropagationState]) -> Conditions:
    """Build the condition about all clusters of one EgressProxy."""
    named = sorted(standings.items(), key=lambda item: str(item[0]))
    count = f"{len(named):,}"
    failed = [item.failure for _, item in named if item.failure]
    if failed:
        return _build_false_conditions("Failed", f"not in {len(failed):,} of {count}: {format_first(failed, _SHOWN, '; ')}")
    withheld = [_format_key(key) for key, item in named if item.withheld]
    if withheld:
        return _build_false_conditions(
            "PodsWithheld",
            f"spec.propagated.pods.namespaceSelector: not set, and the proxy has credentials, which readers of Secrets of a"
            f" namespace can read: pods get no proxy in {len(withheld):,} of {count} clusters"
            f" ({format_first(withheld, _SHOWN)}) until it, or spec.pods of the EgressProxy there, selects the namespaces that"
            " may have them",
        )
    words = [f"{_format_key(key)} says {item.word}" for key, item in named if item.word]
    if words:
        return _build_false_conditions(
            "NotReady",
            f"in all of {count} clusters that require it, and {len(words):,} not ready: {format_first(words, _SHOWN, '; ')}",
        )
    silent = [_format_key(key) for key, item in named if not item.heard]
    text = f"in all of {count} clusters that require it"
    if silent:
        text += f"; no word of a Transom there yet: {format_first(silent, _SHOWN)}"
    return {"Propagated": Condition("True", "Propagated", text)}


def _build_false_conditions(reason: str, message: str) -> Conditions:
    return {"Propagated": Condition("False", reason, message)}


def _format_key(key: ObjectKey) -> str:
    return "/".join(filter(None, key))
