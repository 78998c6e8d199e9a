"""sc.exe and net.exe (Microsoft: "sc query", "net stop")."""

from transom.windows.host.host_state import ServiceState
from winsim.computer import Invocation
from winsim.services import ServiceError, SimulatedService

_TEXTS = {
    2: "The system cannot find the file specified.",
    5: "Access is denied.",
    193: "%1 is not a valid Win32 application.",
    1051: "A stop control has been sent to a service that other running services are dependent on.",
    1053: "The service did not respond to the start or control request in a timely fashion.",
    1056: "An instance of the service is already running.",
    1058: "The service cannot be started, either because it is disabled or because it has no enabled devices\n"
    "associated with it.",
    1060: "The specified service does not exist as an installed service.",
    1061: "The service cannot accept control messages at this time.",
    1062: "The service has not been started.",
    1068: "The dependency service or group failed to start.",
    1072: "The specified service has been marked for deletion.",
    1073: "The specified service already exists.",
    1075: "The dependency service does not exist or has been marked for deletion.",
}
_CALLS = {
    "query": "EnumQueryServicesStatus:OpenService",
    "queryex": "EnumQueryServicesStatus:OpenService",
    "start": "StartService",
    "stop": "ControlService",
    "delete": "DeleteService",
    "create": "CreateService",
    "config": "OpenService",
    "failure": "OpenService",
    "failureflag": "OpenService",
}
_START_TYPES = {"boot": 0, "system": 1, "auto": 2, "demand": 3, "disabled": 4, "delayed-auto": 2}
_WAIT_SECONDS = 30.0


async def run_sc(call: Invocation) -> int:
    """Run `sc query|start|stop|delete|create|config|failure|failureflag NAME`; return 0 or the error number."""
    words = call.arguments
    if len(words) < 2 or words[0].casefold() not in _CALLS:
        call.write_output("ERROR:  Unrecognized command\n")
        return 1639
    operation, name = words[0].casefold(), words[1]
    services = call.host.services
    try:
        match operation:
            case "query" | "queryex":
                call.write_output(_render_status(call, services.get(name)))
            case "start":
                await services.start(name)
                call.write_output(_render_status(call, services.get(name)))
            case "stop":
                services.stop(name)
                call.write_output(_render_status(call, services.get(name)))
            case "delete":
                services.delete(name)
                call.write_output("[SC] DeleteService SUCCESS\n")
            case "failure" | "failureflag":
                services.get(name)
                call.write_output("[SC] ChangeServiceConfig2 SUCCESS\n")
            case "config":
                return _configure(call, services.get(name), words[2:])
            case _:
                return _create(call, name, words[2:])
    except ServiceError as failure:
        function = _CALLS[operation]
        if failure.code == 1060 and operation in ("start", "stop", "delete"):
            function = (
                f"{'Start' if operation == 'start' else 'Open'}Service: OpenService" if operation == "start" else "OpenService"
            )
        call.write_output(f"[SC] {function} FAILED {failure.code}:\n\n{_TEXTS[failure.code]}\n\n")
        return failure.code
    return 0


def _parse_options(call: Invocation, words: list[str]) -> dict[str, str] | None:
    options: dict[str, str] = {}
    for key, value in zip(words[::2], words[1::2], strict=False):
        if not key.endswith("="):
            call.write_output("ERROR:  Unrecognized command\n")
            return None
        options[key[:-1].casefold()] = value
    if len(words) % 2 or "binpath" not in options or options.get("start", "demand").casefold() not in _START_TYPES:
        call.write_output("ERROR:  Invalid syntax\n")
        return None
    return options


def _configure(call: Invocation, service: SimulatedService, words: list[str]) -> int:
    options = _parse_options(call, words)
    if options is None:
        return 1639
    depends = tuple(item for item in options.get("depend", "").split("/") if item)
    call.host.services.configure(service, options["binpath"], depends, _START_TYPES[options["start"].casefold()])
    call.write_output("[SC] ChangeServiceConfig SUCCESS\n")
    return 0


def _create(call: Invocation, name: str, words: list[str]) -> int:
    options = _parse_options(call, words)
    if options is None:
        return 1639
    call.host.services.create(
        name,
        options["binpath"],
        depends=tuple(item for item in options.get("depend", "").split("/") if item),
        start_type=_START_TYPES[options.get("start", "demand").casefold()],
        display=options.get("displayname"),
    )
    call.write_output("[SC] CreateService SUCCESS\n")
    return 0


def _render_status(call: Invocation, service: SimulatedService) -> str:
    running = service.state == ServiceState.RUNNING
    accepts = "STOPPABLE, NOT_PAUSABLE, ACCEPTS_SHUTDOWN" if running else "NOT_STOPPABLE, NOT_PAUSABLE, IGNORES_SHUTDOWN"
    code = 1077 if service.state == ServiceState.STOPPED and not service.starts else service.exit_code
    checkpoint, hint = service.get_checkpoint(call.host.get_time())
    return (
        f"\nSERVICE_NAME: {service.name} \n"
        "        TYPE               : 10  WIN32_OWN_PROCESS  \n"
        f"        STATE              : {int(service.state)}  {service.state.name} \n"
        f"                                ({accepts})\n"
        f"        WIN32_EXIT_CODE    : {code}  ({code:#x})\n"
        "        SERVICE_EXIT_CODE  : 0  (0x0)\n"
        f"        CHECKPOINT         : {checkpoint:#x}\n"
        f"        WAIT_HINT          : {hint:#x}\n"
    )


async def run_net(call: Invocation) -> int:
    """Run `net start [NAME]` or `net stop NAME [/y]` and wait for the service; return 0, or 2 on failure."""
    words = [word for word in call.arguments if word.casefold() != "/y"]
    services = call.host.services
    if words and words[0].casefold() == "start" and len(words) == 1:
        running = [name for name in services.list_names() if services.get(name).state == ServiceState.RUNNING]
        call.write_output("These Windows services are started:\n\n" + "".join(f"   {name}\n" for name in running) + "\n")
        return 0
    if len(words) != 2 or words[0].casefold() not in ("start", "stop"):
        call.write_error("The syntax of this command is:\n\nNET [ START | STOP ]\n")
        return 1
    name = words[1]
    try:
        if words[0].casefold() == "start":
            await services.start(name)
            done = await services.wait_for_state(name, ServiceState.RUNNING, _WAIT_SECONDS)
        else:
            if len(words) != len(call.arguments):
                await _stop_dependants(call, name)
            services.stop(name)
            done = await services.wait_for_state(name, ServiceState.STOPPED, _WAIT_SECONDS)
    except ServiceError as failure:
        call.write_error(f"{_TEXTS[failure.code]}\n\nMore help is available by typing NET HELPMSG {failure.code}.\n\n")
        return 2
    verb = "started" if words[0].casefold() == "start" else "stopped"
    call.write_output(
        f"The {name} service was {verb} successfully.\n\n" if done else f"The {name} service could not be {verb}.\n"
    )
    return 0 if done else 2


async def _stop_dependants(call: Invocation, name: str) -> None:
    for dependant in call.host.services.list_dependants(name):
        await _stop_dependants(call, dependant)
        call.host.services.stop(dependant)
        await call.host.services.wait_for_state(dependant, ServiceState.STOPPED, _WAIT_SECONDS)
