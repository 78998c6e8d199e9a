"""A Windows machine's first boot as cloudbase-init runs it: its own InitManager, by an image's configuration."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from lab.cloudbase import Outcome, _Windows, record_outcome


def create_machine(drives: Sequence[str] = (), answers: Mapping[str, str] | None = None) -> _Machine:
    """Create a machine. `drives` are directories, `answers` the output of programs by their last argument.

    rpctool.exe is such a program.
    """
    return _Machine(drives, answers or {})


def run(machine: _Machine, configuration: bytes, scripts: Path, *, modules: Sequence[Path] = (), **settings: Any) -> Outcome:
    """One run of cloudbase-init on a machine.

    `scripts` is the directory of local scripts, `modules` hold classes of an image, `settings` are options beside the file's.
    """
    from cloudbaseinit import init  # type: ignore[import-untyped]

    with (
        _apply_configuration(configuration, {"local_scripts_path": str(scripts), **settings}),
        record_outcome({}, modules, machine) as outcome,
    ):
        init.InitManager().configure_host()
    return outcome


@contextmanager
def _apply_configuration(configuration: bytes, settings: Mapping[str, Any]) -> Iterator[None]:
    from cloudbaseinit import conf

    lines = [line.partition("=") for line in configuration.decode().splitlines() if "=" in line]
    with ExitStack() as stack:
        # what some classes import of Windows is there by name alone
        for name, module in _build_stub_modules("winreg", "cloudbaseinit.utils.windows.x509").items():
            sys.modules[name] = module
            stack.callback(sys.modules.pop, name)
        for name, value in {**{name: value for name, _, value in lines}, **settings}.items():
            # those of the log's are of another library, and its own business
            if name in conf.CONF:
                conf.CONF.set_override(name, value.split(",") if isinstance(conf.CONF[name], list) else value)
                stack.callback(conf.CONF.clear_override, name)
        yield


def _build_stub_modules(*names: str) -> dict[str, ModuleType]:
    absent: dict[str, ModuleType] = {}
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            absent[name] = mock.MagicMock()
    return absent


class _Machine(_Windows):
    """What cloudbase-init keeps on a machine between its runs, and what it did there (`did`, in order)."""

    def __init__(self, drives: Sequence[str], answers: Mapping[str, str]) -> None:
        super().__init__(Outcome())
        self.name = "WIN-BUILD"
        self.did: list[str] = []
        self._drives, self._answers = drives, answers
        self._kept: dict[tuple[str, str], Any] = {}

    def wait_for_boot_completion(self) -> None:
        pass

    def check_os_version(self, major: int, minor: int) -> bool:
        return True

    def get_config_value(self, name: str, section: str) -> Any:
        return self._kept.get((section, name))

    def set_config_value(self, name: str, value: Any, section: str) -> None:
        self._kept[section, name] = value

    def get_dhcp_hosts_in_use(self) -> list[tuple[str, str, str]]:
        return []

    def set_host_name(self, name: str) -> bool:
        changed, self.name = name != self.name, name
        if changed:
            self.did.append(f"name {name}")
        return changed

    def user_exists(self, username: str) -> bool:
        return username == "Administrator"

    def set_user_password(self, name: str, password: str) -> None:
        self.did.append(f"random password of {name}")

    def get_logical_drives(self) -> Sequence[str]:
        return self._drives

    def get_network_adapter_name_by_mac_address(self, mac: str) -> str:
        return "Ethernet0"

    def rename_network_adapter(self, old: str, new: str) -> None:
        pass

    def set_network_adapter_mtu(self, name: str, mtu: int) -> None:
        pass

    def enable_network_adapter(self, name: str, enabled: bool) -> None:
        pass

    def set_static_network_config(self, adapter: str, address: str, prefix: object, gateway: str, *_: object) -> bool:
        self.did.append(f"address {address} {prefix} by {gateway}")
        return False

    def execute_process(self, args: Sequence[str], shell: bool = False) -> tuple[bytes, bytes, int]:
        if args[-1] in self._answers:
            return self._answers[args[-1]].encode(), b"", 0
        return (b"", b"", 1) if args[-1].startswith("info-get ") else super().execute_process(args, shell)

    def reboot(self) -> None:
        self.did.append("restart")

    def terminate(self) -> None:
        self.did.append("service stopped")
