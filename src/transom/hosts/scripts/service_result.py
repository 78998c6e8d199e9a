"""The lines of a result about services that did not stop or start, as sentences."""

from collections.abc import Callable
from typing import Final

import msgspec

from transom.hosts.errors import HostError, RestartsFailed, ServiceDisabled
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.hosts.scripts.results import ResultWord
from transom.windows.host.host_state import ServiceState
from transom.windows.planning.planner import Plan
from transom.windows.registry.names import is_listed

LIMIT_OPTION: Final = "`--service-timeout`, or `timeoutSeconds` of the service in the payload"
"""What sets the limit of a service; every message about that limit contains it."""
ERRORS: Final = {
    "2": "the program of the service does not exist",
    "3": "the directory of its program does not exist",
    "5": "access is denied",
    "193": "its program is not a Windows program",
    "577": "Windows does not accept the signature of its program",
    "1051": "another service that depends on it has not stopped",
    "1053": "it did not respond to the service control manager in time",
    "1058": "it is disabled",
    "1061": "it accepts no requests now",
    "1068": "a service that it depends on did not start",
    "1069": "its account could not log on",
    "1072": "it is marked for deletion",
    "1075": "a service that it depends on does not exist",
}
"""What `sc start` and `sc stop` exit with (Microsoft Learn, "System Error Codes": 0-499, 500-999, 1000-1299)."""
_DEPENDANT_RUNS: Final = "1051"
"""The script waits as long for dependants, which may be stopping, as for the service itself."""
_NO_REFUSAL: Final = ("", "0", "1", "1056", "1062")
"""Success, Wine's only error, and a service that runs or is stopped already."""
_NO_EXIT: Final = ("", "0", "1077")
"""`1077`: the service was not started since the last boot."""


class ServiceTrouble(msgspec.Struct, frozen=True):
    """A service that did not stop or start: its state, the error of the last request, and the code that it ended with."""

    name: str
    state: str
    error: str
    exit_code: str

    @classmethod
    def parse(cls, text: str) -> "ServiceTrouble":
        """Return the trouble in `STATE- ERROR- EXIT- NAME`; a minus sign ends each number, because it can be missing."""
        state, error, code, name = text.split(" ", 3)
        return cls(name, state[:-1], error[:-1], code[:-1])

    @property
    def is_starting(self) -> bool:
        """Return True where Windows started the service, and it is not ready yet."""
        return self.state == str(ServiceState.START_PENDING.value)

    @property
    def cause(self) -> str:
        """Return the numbers that Windows gave, in words, with a colon before them; an empty string where it gave none."""
        causes = []
        if self.error not in _NO_REFUSAL:
            causes.append(f"Windows error {self.error}" + (f" ({ERRORS[self.error]})" if self.error in ERRORS else ""))
        if self.state == str(ServiceState.STOPPED.value) and self.exit_code not in (*_NO_EXIT, self.error):
            causes.append(f"it ended with exit code {self.exit_code}")
        return f": {', '.join(causes)}" if causes else ""


Values = Callable[[ResultWord], tuple[str, ...]]
"""What stands behind a word of the result, in each line that begins with it."""


def find_service_error(values: Values, plan: Plan, patience: ServiceTimeouts) -> HostError | None:
    """Return the error of services that did not stop, did not start, or could not be restarted.

    A service that stopped late and was then started has had its restart: it is not an error, except where a payload waits for
    it to stop.
    """
    if disabled := values(ResultWord.DISABLED):
        return ServiceDisabled(describe_disabled_services(disabled))
    restarted = () if plan.install else values(ResultWord.RESTARTED)
    stuck = [item for item in map(ServiceTrouble.parse, values(ResultWord.STUCK)) if not is_listed(item.name, restarted)]
    names = [item.name for item in stuck]
    down = [item for item in map(ServiceTrouble.parse, values(ResultWord.UNSTARTED)) if not is_listed(item.name, names)]
    problems = [_describe_stuck_service(item, patience) for item in stuck]
    problems += [_describe_stopped_service(item, patience) for item in down if not item.is_starting]
    starting = [item.name for item in down if item.is_starting]
    if starting:
        limits = ", ".join(
            f"{name} is still starting, {patience.get_start_seconds(name)} s after its start" for name in starting
        )
        problems.append(f"{limits} (limit: {LIMIT_OPTION}); the next pass waits for that and does not restart it")
    owed = [name for name in values(ResultWord.OWED) if not is_listed(name, names)]
    if owed:
        problems.append(f"{', '.join(owed)} could not be restarted yet")
    if not problems:
        return None
    return RestartsFailed("; ".join(problems) + ". Every other service that should run was started; the next pass tries again")


def describe_disabled_services(names: tuple[str, ...]) -> str:
    """Return the message about disabled services that run: Windows would not start them again."""
    return (
        f"{', '.join(names)}: disabled, and running. Windows would not start a disabled service again (error 1058), so Transom "
        "stopped nothing. Set its start type (`sc config NAME start= auto`), or stop it; the restart is still owed"
    )


def _describe_stuck_service(trouble: ServiceTrouble, patience: ServiceTimeouts) -> str:
    is_pending = trouble.state in (str(ServiceState.STOP_PENDING.value), str(ServiceState.START_PENDING.value))
    is_pending = is_pending or trouble.error == _DEPENDANT_RUNS
    seconds = (
        patience.get_stop_seconds(trouble.name)
        if is_pending
        else patience.get_idle_seconds(patience.get_stop_seconds(trouble.name))
    )
    limit = f" (limit: {LIMIT_OPTION})" if is_pending else ""
    return f"{trouble.name} did not stop within {seconds} s{limit}{trouble.cause}"


def _describe_stopped_service(trouble: ServiceTrouble, patience: ServiceTimeouts) -> str:
    return (
        f"{trouble.name} does not run, {patience.get_idle_seconds(patience.get_start_seconds(trouble.name))} s after its "
        f"start{trouble.cause}"
    )
