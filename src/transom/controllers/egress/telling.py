"""Events about settings: what became wrong, and what is right again."""

from collections.abc import Mapping
from typing import Any, Final

from transom.controllers.conditions import Verdicts
from transom.kube.events import EventRecorder, Regarding

_BAD: Final = {"Valid": "InvalidSettings", "Ready": "EndpointFailed"}
"""The conditions that are told, and the reason of the event for each that is False."""


def tell(regarding: Regarding, before: Mapping[Any, Mapping[str, Any]], verdicts: Verdicts, recorder: EventRecorder) -> None:
    """Tell what is another than `before`: conditions by type, each with its status and message."""
    for type_, bad in _BAD.items():
        verdict, was = verdicts.get(type_), before.get(type_) or {}
        if verdict is None:
            continue
        if verdict.status == "False" and (was.get("status") != "False" or was.get("message") != verdict.message):
            recorder.warning(regarding, bad, verdict.message)
        elif verdict.status == "True" and was.get("status") == "False":
            recorder.normal(regarding, type_, verdict.message)
