"""What cloudbase-init, which Windows images have, makes of user data: its own parsers run, and this machine stays as it is."""

from __future__ import annotations

import logging
import ntpath
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock


@dataclass(frozen=True)
class WrittenFile:
    r"""A file that would be written: its path as on Windows (`C:\k\proxy.cmd`; `\run\…` is on the current drive)."""

    path: str
    content: bytes
    permissions: int


@dataclass(frozen=True)
class RunScript:
    """A script that would be run: by `cmd`, `powershell` or `powershell-x86`, and its bytes."""

    program: str
    content: bytes


@dataclass(frozen=True)
class User:
    """A local user that would be made, with the groups it is put into."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Clock:
    """The time servers that would be set."""

    servers: tuple[str, ...]


@dataclass
class Outcome:
    """What would happen, in order, and what cloudbase-init complained of in its log (warnings and errors)."""

    events: list[WrittenFile | RunScript | User | Clock] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def files(self) -> list[WrittenFile]:
        """The files, in order."""
        return [event for event in self.events if isinstance(event, WrittenFile)]

    @property
    def scripts(self) -> list[RunScript]:
        """The scripts, in order; the commands of `runcmd` are one of them."""
        return [event for event in self.events if isinstance(event, RunScript)]

    @property
    def users(self) -> list[User]:
        """The users, in order."""
        return [event for event in self.events if isinstance(event, User)]

    @property
    def commands(self) -> list[str]:
        """The lines of the one script that `runcmd` is."""
        return [
            line for ran in self.scripts if ran.content.startswith(b"rem cmd") for line in ran.content.decode().splitlines()[1:]
        ]


HOST = {"local_hostname": "win-1", "instance_id": "i-1"}
"""Metadata as a provider has it for a host; templates see it as `ds.meta_data`."""


def read(
    user_data: bytes,
    metadata: Mapping[str, str] | None = None,
    plugins: Mapping[str, str] | None = None,
    modules: Sequence[Path] = (),
) -> Outcome:
    """Give user data to cloudbase-init's plugin for it.

    Args:
        user_data: as the metadata service has it; it may be gzipped.
        metadata: of the instance, `HOST` by default.
        plugins: classes of user data plugins, by the class that each replaces (user_data_plugins in `cloudbase-init.conf`).
        modules: directories in which Python modules of those plugins lie.
    """
    from cloudbaseinit.plugins.common import userdata  # type: ignore[import-untyped]

    with record_outcome(plugins or {}, modules) as outcome:
        source = create_service(user_data, metadata or HOST)
        userdata.UserDataPlugin().execute(source, {})
    return outcome


def create_service(user_data: bytes, metadata: Mapping[str, str]) -> Any:
    """Create a metadata service of cloudbase-init with this user data."""
    from cloudbaseinit.metadata.services import base  # type: ignore[import-untyped]

    class Service(base.BaseMetadataService):  # type: ignore[misc]
        def _get_data(self, path: str) -> bytes:
            raise base.NotExistingMetadataException(path)

        def get_user_data(self) -> bytes:
            return user_data

        def get_instance_data(self) -> dict[str, Any]:
            return {"v1": dict(metadata), "ds": {"meta_data": dict(metadata)}}

    return Service()


@contextmanager
def record_outcome(plugins: Mapping[str, str], modules: Sequence[Path], windows: _Windows | None = None) -> Iterator[Outcome]:
    """Replace what of cloudbase-init would change this machine, and yield the record of it.

    With `windows`, the record is that of `windows`.
    """
    from cloudbaseinit import conf  # type: ignore[import-untyped]
    from cloudbaseinit.osutils import factory  # type: ignore[import-untyped]
    from cloudbaseinit.plugins.common.userdataplugins.cloudconfigplugins import write_files  # type: ignore[import-untyped]

    windows = windows or _Windows(Outcome())
    outcome = windows.outcome
    complaints = _Complaints(outcome)
    logger = logging.getLogger("cloudbaseinit")

    def write(path: str, content: bytes, permissions: int = write_files.DEFAULT_PERMISSIONS, open_mode: str = "wb") -> bool:
        outcome.events.append(WrittenFile(path, content, permissions))
        return True

    replaced = [plugins.get(path, path) for path in conf.CONF.user_data_plugins]
    logger.addHandler(complaints)
    try:
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(factory, "get_os_utils", lambda: windows))
            stack.enter_context(mock.patch.object(write_files, "_write_file", write))
            stack.enter_context(mock.patch.object(write_files, "os", SimpleNamespace(path=ntpath)))
            stack.enter_context(mock.patch("sys.path", [*map(str, modules), *sys.path]))
            conf.CONF.set_override("user_data_plugins", replaced)
            stack.callback(conf.CONF.clear_override, "user_data_plugins")
            yield outcome
    finally:
        logger.removeHandler(complaints)


class _Complaints(logging.Handler):
    def __init__(self, outcome: Outcome) -> None:
        super().__init__(logging.WARNING)
        self._outcome = outcome

    def emit(self, record: logging.LogRecord) -> None:
        self._outcome.complaints.append(record.getMessage())


class _Windows:
    """The functions of cloudbase-init's Windows layer that the plugins call."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self._events = outcome.events

    def set_ntp_client_config(self, ntp_hosts: Sequence[str]) -> None:
        self._events.append(Clock(tuple(ntp_hosts)))

    def get_default_script_exec_header(self) -> str:
        return "rem cmd"

    def execute_process(self, args: Sequence[str], shell: bool = False) -> tuple[bytes, bytes, int]:
        self._events.append(RunScript("cmd", Path(args[-1]).read_bytes()))
        return b"", b"", 0

    def execute_powershell_script(self, script_path: str, sysnative: bool = True) -> tuple[bytes, bytes, int]:
        self._events.append(RunScript("powershell" if sysnative else "powershell-x86", Path(script_path).read_bytes()))
        return b"", b"", 0

    def get_maximum_password_length(self) -> int:
        return 20

    def generate_random_password(self, length: int) -> str:
        return "hunter2"

    def user_exists(self, username: str) -> bool:
        return False

    def create_user(self, username: str, password: str) -> None:
        self._events.append(User(username))

    def set_user_info(self, username: str, **_: object) -> None:
        pass

    def add_user_to_local_group(self, username: str, groupname: str) -> None:
        user = self._events[-1]
        assert isinstance(user, User)
        assert user.name == username
        self._events[-1] = User(username, (*user.groups, groupname))

    def create_user_logon_session(self, username: str, password: str) -> None:
        pass

    def close_user_logon_session(self, token: None) -> None:
        pass

    def get_user_home(self, username: str) -> None:
        return None
