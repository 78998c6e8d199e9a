"""The System log: what the service control manager writes to it.

Source: Microsoft Learn, "Event IDs" of Service Control Manager.
"""

from typing import Literal

import msgspec

_ERRORS = {
    7000: "The {} service failed to start due to error {}.",
    7001: "The {} service depends on a service which failed to start, error {}.",
    7009: "A timeout was reached (30000 milliseconds) while waiting for the {} service to connect.",
    7023: "The {} service terminated with error {}.",
    7034: "The {} service terminated unexpectedly, exit code {}.",
}
_INFORMATION = {
    7036: "The {} service entered the {} state.",
    7040: "The start type of the {} service was changed.",
    7045: "A service was installed in the system. Service Name: {} Service File Name: {}",
}


class Event(msgspec.Struct, frozen=True):
    """One event: its number, how bad it is, and what it says."""

    id: int
    level: Literal["Error", "Information"]
    text: str


class SystemLog:
    """The events since the host was made, the oldest first."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, number: int, *about: object) -> None:
        """Add an event of the service control manager."""
        level: Literal["Error", "Information"] = "Error" if number in _ERRORS else "Information"
        self.events.append(Event(number, level, (_ERRORS | _INFORMATION)[number].format(*about)))

    def list_errors(self) -> list[Event]:
        """Return the events of level Error."""
        return [event for event in self.events if event.level == "Error"]
