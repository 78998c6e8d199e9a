"""A model host's life through a history, and what has to hold all the time.

`lived` raises AssertionError where one of these does not hold:

- after a pass that was not cut there is nothing left to do, and another pass does nothing;
- each managed service that runs has the environment that is wanted, nothing of ours that is not, and has started since our
  last certificate came; who was stopped stays stopped, who ran runs, and nobody is restarted who is neither managed nor
  depends on who is;
- once the settings are removed, the host has booted, and they were removed again, the registry is as if only administrators
  had ever changed it.

What administrators do to Transom's own items follows the contract: put right while it is configured, left on removal.
"""

import itertools
import re
from typing import Final

import msgspec
from tests.windows.authorities import authorities, der, sha1
from tests.windows.planning import histories
from tests.windows.planning.histories import MARK, OURS, History, Step
from tests.windows.planning.model_host import STORES, ModelHost, Run
from tests.windows.planning.shadow import compare

from transom.windows import ledger
from transom.windows.host.queries import ENVIRONMENT, LEDGER, SERVICES
from transom.windows.parts import certificates, execution_policy, powershell, winhttp, winhttp_value
from transom.windows.parts.powershell import PROFILE
from transom.windows.planning.planner import Plan, build_desired_settings
from transom.windows.registry.edits import CreateKey, DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import (
    Value,
    ValueType,
    build_binary,
    build_dword,
    build_expand_sz,
    build_multi_sz,
    build_sz,
)

_SIGNATURE: Final = "# SIG # Begin signature block"
_BLOCK: Final = re.compile(r"^# Transom begin.*?^# Transom end\r?\n?", re.MULTILINE | re.DOTALL)
_UTF_16: Final = b"\xff\xfe"
_NEEDS: Final = {"kubelet": ("containerd",), "other": ("kubelet",)}


def lived(history: History) -> frozenset[str]:
    """Takes a host through a history and returns the parts of which it had something. Raises AssertionError."""
    life = _Life(history)
    parts = set[str]()
    for step in history.steps:
        life.step(step)
        if isinstance(step, histories.Apply):
            recorded = ledger.read(life.host.registry)
            parts |= {name for name in ledger.PARTS if getattr(recorded, name)}
            parts |= {"masks"} if recorded.environment.is_hiding_variables else set()
    life.removed()
    return frozenset(parts)


class _Life:
    """The host, and the shadow: a registry that administrators alone have changed."""

    def __init__(self, history: History) -> None:
        edits: list[Edit] = [
            CreateKey(ENVIRONMENT),
            CreateKey(SERVICES),
            CreateKey(winhttp.KEY),
            CreateKey(certificates.get_store_path("My")),
        ]
        edits += [CreateKey(store) for store, item in zip(STORES, history.stores, strict=True) if item]
        edits += [
            SetValue(ENVIRONMENT, name, build_expand_sz(value)) for name, value in (item.split("=") for item in history.machine)
        ]
        if history.win_http is not None:
            edits.append(SetValue(winhttp.KEY, winhttp_value.VALUE, build_binary(bytes.fromhex(history.win_http))))
        self.shadow = Registry().apply_edits(edits)
        self.host = ModelHost(self.shadow, _NEEDS)
        self.profile = history.profile
        """The profile of PowerShell as administrators alone have written it."""
        self._lines = itertools.count(1)
        self._profile_drifted = False
        """Whether an administrator has changed our block in it since the last pass that could write it."""
        if history.profile is not None:
            self.host.files[PROFILE] = history.profile
        self._drifted: set[tuple[str, str]] = set()
        """Variables of services (of the machine: of none) that an administrator has changed since the last pass."""
        self._handled: set[str] = set()
        """Services of which administrators took items out, or changed ours."""
        self._taken: set[int] = set()
        """Certificates of ours that an administrator took out since the last pass."""
        self._torn = False
        self._put_off = False

    def step(self, step: Step) -> None:
        match step:
            case histories.Apply():
                self._apply(step)
            case histories.Boot():
                self.host.boot_again()
                self._put_off = False
            case histories.Appear():
                self._appear(step)
            case histories.Vanish() if step.service in self.host.services:
                self._both(DeleteKey(_path(step.service)))
                del self.host.services[step.service]
                self._handled.discard(step.service)
                self._drifted = {(service, name) for service, name in self._drifted if service != step.service}
            case histories.Halt() if step.service in self.host.services and not self._torn:
                self.host.services[step.service].meant = step.running
                (self.host.start if step.running else self.host.stop)(step.service)
            case histories.AddItem() if step.service in self.host.services:
                self._add(step)
            case histories.TakeItem() if step.service in self.host.services:
                self._take(step)
            case histories.Write() if step.service in self.host.services and not self._torn:
                value = None if step.text is None else build_sz(step.text)
                self._both(_setting(_path(step.service), "Environment", value))
                self._drifted = {(service, name) for service, name in self._drifted if service != step.service}
                if self.host.services[step.service].seen is not None:
                    self.host.stop(step.service)
                    self.host.start(step.service)
            case histories.Drift() if not self._torn:
                self._drift(step)
            case histories.SetMachine() if not self._torn:
                self._set_machine(step)
            case histories.Trust() if not self._torn:
                self._trust(step)
            case histories.SetWinHttp() if not self._torn:
                self._set_win_http(step)
            case histories.Policy():
                self._set_policy(step)
            case histories.SetExecutionPolicy():
                self._set_execution_policy(step)
            case histories.EditProfile():
                self._edit_profile(step)
            case _:
                pass

    def removed(self) -> None:
        self.step(histories.EditProfile("unsign"))
        nothing = histories.Apply(scope="Services")
        self.step(nothing)
        self.host.boot_again()
        self._put_off = False
        self.step(nothing)
        whole = self.host.run(build_desired_settings(nothing.egress()), "now", expected=True)
        assert whole is not None and not whole.done, f"something was left to do: {whole.done.steps}"
        assert self.host.registry.find_key(LEDGER) is None, "the ledger was left"
        compare(self.host.registry, self.shadow, set(map(_path, self._handled)))
        left = self.host.files.get(PROFILE)
        assert left == self.profile, f"the profile is {left!r}, and without Transom {self.profile!r}"

    def _apply(self, step: histories.Apply) -> None:
        wanted = build_desired_settings(step.egress())
        cut = None if self._drifted else step.cut
        faults = self._unreadable(step)
        for service, name in self._drifted:
            self._leave(service, name, step)
        cut = None if self._profile_drifted else cut
        before = self.host.files.get(PROFILE)
        starts = {name: run.starts for name, run in self.host.services.items()}
        whole = self.host.run(wanted, step.when, expected=step.expected, cut=cut)
        if whole is None:
            self._torn = True
            if step.power:
                self.host.boot_again()
                self._put_off = False
            return
        self._drifted.clear()
        self._taken.clear()
        assert not whole.rest, f"a pass left something to do: {whole.rest.steps}"
        assert len(whole.rest.faults) == len(faults), (whole.rest.faults, faults)
        again = self.host.run(wanted, step.when, expected=step.expected)
        assert again is not None and not again.done, f"the next pass did something: {again.done.steps}"
        if "antivirus" in starts:
            assert self.host.services["antivirus"].starts == starts["antivirus"], "a service was restarted that nobody manages"
        self._torn = False
        self._put_off = step.when != "now"
        self._services_are_right(step, faults)
        self._profile_is_right(wanted.profile, before, whole.rest)

    def _profile_is_right(self, block: str, before: bytes | None, rest: Plan) -> None:
        content = self.host.files.get(PROFILE)
        is_signed = _SIGNATURE in _decode(content)
        assert bool(rest.profile_fault) <= is_signed, rest.profile_fault
        policy = execution_policy.find_unloading_policy(self.host.registry) if block else ""
        assert any("execution policy" in warning for warning in rest.warnings) == bool(policy), rest.warnings
        if is_signed:
            return
        if self._profile_drifted and not block:
            self.profile = before
        self._profile_drifted = False
        text = _decode(content).replace("\r\n", "\n")
        assert not block or text.count(block) == 1, f"the profile is {text!r}"
        assert block or MARK not in text or MARK in _decode(self.profile), f"the profile still has {text!r}"

    def _unreadable(self, step: histories.Apply) -> set[str]:
        """The services that cannot have what is wanted."""
        names = {name.casefold() for name in step.services} if step.egress().variables and step.scope != "Machine" else set()
        values = {
            name: self.host.registry.find_value(_path(name), "Environment") for name in self.host.services if name in names
        }
        return {name for name, value in values.items() if value is not None and value.type != ValueType.MULTI_SZ}

    def _services_are_right(self, step: histories.Apply, faults: set[str]) -> None:
        managed = {name.casefold() for name in step.services}
        variables = step.egress().variables
        for name, run in self.host.services.items():
            assert (run.seen is not None) == run.meant, f"{name}: runs {run.seen is not None}, and should {run.meant}"
            if run.seen is None or name not in managed or self._put_off:
                continue
            wanted = [
                number
                for number in step.trust
                if self.shadow.find_key(_place(number)) is None and self.shadow.find_key(_policy_place(number)) is None
            ]
            late = [number for number in wanted if sha1(authorities()[number]) not in run.seen.trusted]
            assert not late, f"{name} has started before certificates {late} came"
            if name in faults:
                continue
            own = self.host.registry.find_value(_path(name), "Environment")
            for variable in OURS:
                has, is_to_have = run.seen.environment.get(variable, ""), variables.get(variable, "")
                if is_to_have and step.scope != "Machine":
                    assert has == is_to_have, f"{name} has {variable}={has}"
                elif not is_to_have and (own is None or own.type == ValueType.MULTI_SZ):
                    assert MARK not in has, f"{name} still has {variable}={has}"

    def _both(self, *edits: Edit) -> None:
        self.host.edit(*edits)
        self.shadow = self.shadow.apply_edits(edits)

    def _appear(self, step: histories.Appear) -> None:
        if step.service in self.host.services:
            return
        self._both(SetValue(_path(step.service), "ImagePath", build_expand_sz(rf"C:\k\{step.service}.exe")))
        if step.environment is not None:
            self._both(SetValue(_path(step.service), "Environment", build_multi_sz(step.environment)))
        # a restart that a cut has left is owed to the name
        running = step.running or self._torn
        self.host.services[step.service] = Run(running)
        if running:
            self.host.start(step.service)

    def _items(self, service: str) -> list[str] | None:
        """The items of a service's environment; None where Windows reads none."""
        value = self.host.registry.find_value(_path(service), "Environment")
        if value is not None and value.type != ValueType.MULTI_SZ:
            return None
        return list(value.to_texts() if value else ())

    def _add(self, step: histories.AddItem) -> None:
        items, name = self._items(step.service), _name(step.item)
        if items is None or step.item in items or (self._torn and name in OURS):
            return
        if any(_is_ours(item) and _name(item) == name for item in items):
            self._drifted.add((step.service, name))
        else:
            self.shadow = self.shadow.apply_edits([_appended(self.shadow, step.service, step.item)])
        self.host.edit(_appended(self.host.registry, step.service, step.item))

    def _take(self, step: histories.TakeItem) -> None:
        items = self._items(step.service)
        shadow = self.shadow.find_value(_path(step.service), "Environment")
        if items is None or step.item not in items or self._torn or shadow is None or step.item not in shadow.to_texts():
            return
        self._handled.add(step.service)
        for registry in (self.host.registry, self.shadow):
            value = registry.find_value(_path(step.service), "Environment")
            left = [item for item in (value.to_texts() if value else ()) if item != step.item]
            edit = SetValue(_path(step.service), "Environment", build_multi_sz(left))
            if registry is self.shadow:
                self.shadow = self.shadow.apply_edits([edit])
            else:
                self.host.edit(edit)

    def _drift(self, step: histories.Drift) -> None:
        if not step.service:
            key = self.host.registry.find_key(ENVIRONMENT)
            value = key.get(step.name) if key else None
            if value is not None and MARK in value.decode_text() and step.how != "doubled":
                changed = None if step.how == "deleted" else build_sz("drift.theirs.example")
                self.host.edit(_setting(ENVIRONMENT, step.name, changed))
                self._drifted.add(("", step.name))
            return
        items = self._items(step.service) if step.service in self.host.services else None
        ours = [item for item in items or () if _is_ours(item)]
        mine = [item for item in ours if _name(item) == step.name]
        # where nothing of ours is left, the value is somebody else's as a whole
        if items is None or not mine or (len(ours) < 2 and step.how != "doubled"):
            return
        at = items.index(mine[0])
        replaced = {"deleted": [], "changed": [f"{step.name}=drift.theirs.example"], "doubled": mine * 2}[step.how]
        items[at : at + 1] = replaced
        self.host.edit(SetValue(_path(step.service), "Environment", build_multi_sz(items)))
        self._drifted.add((step.service, step.name))

    def _leave(self, service: str, name: str, step: histories.Apply) -> None:
        """What a pass leaves of what an administrator made of an item of ours that is not wanted any more."""
        configured = name in step.egress().variables
        if not service:
            if name == "WinHTTP":
                wanted = build_desired_settings(step.egress()).registry.find_value(winhttp.KEY, winhttp_value.VALUE)
                if wanted is None:
                    self._same(winhttp.KEY, winhttp_value.VALUE)
            elif not (configured and step.scope != "Services"):
                self._same(ENVIRONMENT, name)
            return
        managed = service in {service.casefold() for service in step.services}
        if (configured and managed and step.scope != "Machine") or service not in self.host.services:
            return
        items = self._items(service)
        shadow = self.shadow.find_value(_path(service), "Environment")
        if items is None:
            return
        here = [item for item in items if _name(item) == name]
        if here and all(map(_is_ours, here)):
            return
        self._handled.add(service)
        rest = [item for item in (shadow.to_texts() if shadow else ()) if _name(item) != name]
        left = [item for item in here if not _is_ours(item)]
        value = build_multi_sz([*rest, *left]) if rest or left or shadow else None
        self.shadow = self.shadow.apply_edits([_setting(_path(service), "Environment", value)])

    def _same(self, path: str, name: str) -> None:
        """The shadow gets the value that the host has."""
        key = self.host.registry.find_key(path)
        named = (key.values or {}).get(name.casefold()) if key else None
        self.shadow = self.shadow.apply_edits([DeleteValue(path, name)])
        if named is not None:
            self.shadow = self.shadow.apply_edits([SetValue(path, named.name, named.value)])

    def _set_machine(self, step: histories.SetMachine) -> None:
        key = self.host.registry.find_key(ENVIRONMENT)
        value = key.get(step.name) if key else None
        if value is not None and MARK in value.decode_text():
            return
        if ("", step.name.upper()) not in self._drifted:
            self._both(_setting(ENVIRONMENT, step.name, build_sz(step.value) if step.value is not None else None))

    def _trust(self, step: histories.Trust) -> None:
        one = authorities()[step.number]
        path = _place(step.number)
        there, his = self.host.registry.find_key(path) is not None, self.shadow.find_key(path) is not None
        if step.present and not there and step.number not in self._taken:
            self._both(SetValue(path, "Blob", certificates.build_blob(der(one), sha1(one))))
        elif not step.present and his:
            self._both(DeleteKey(path))
        elif not step.present and there:
            self._taken.add(step.number)
            self.host.edit(DeleteKey(path))

    def _set_win_http(self, step: histories.SetWinHttp) -> None:
        value = self.host.registry.find_value(winhttp.KEY, winhttp_value.VALUE)
        edit = _setting(
            winhttp.KEY, winhttp_value.VALUE, build_binary(bytes.fromhex(step.data)) if step.data is not None else None
        )
        if value is not None and MARK.encode() in value.data:
            self.host.edit(edit)
            self._drifted.add(("", "WinHTTP"))
        elif ("", "WinHTTP") not in self._drifted:
            self._both(edit)

    def _set_policy(self, step: histories.Policy) -> None:
        one, path = authorities()[step.number], _policy_place(step.number)
        if step.present:
            self._both(SetValue(path, "Blob", certificates.build_blob(der(one), sha1(one))))
        elif self.shadow.find_key(path) is not None:
            self._both(DeleteKey(path))

    def _set_execution_policy(self, step: histories.SetExecutionPolicy) -> None:
        path = execution_policy.POLICY if step.by_group else execution_policy.MACHINE
        if step.policy is None:
            self._both(CreateKey(path), DeleteValue(path, "EnableScripts"), DeleteValue(path, "ExecutionPolicy"))
            return
        self._both(SetValue(path, "ExecutionPolicy", build_sz(step.policy)))
        if step.by_group:
            self._both(SetValue(path, "EnableScripts", build_dword(step.policy != "Restricted")))

    def _edit_profile(self, step: histories.EditProfile) -> None:
        content = self.host.files.get(PROFILE)
        text = _decode(content)
        match step.how:
            case "add" | "put" | "sign":
                line = f"# line {next(self._lines)}" if step.how != "sign" else _SIGNATURE
                if step.how == "sign" and _SIGNATURE in text:
                    return
                self.host.files[PROFILE], self.profile = (
                    _with_line(item, line, at_end=step.how != "put") for item in (content, self.profile)
                )
            case "unsign" if _SIGNATURE in text:
                assert content is not None and self.profile is not None
                self.host.files[PROFILE], self.profile = (
                    _encode(item, re.sub(rf"{_SIGNATURE}\r?\n", "", _decode(item))) for item in (content, self.profile)
                )
            case "delete" if content is not None and not self._torn:
                del self.host.files[PROFILE]
                self.profile, self._profile_drifted = None, False
            case "drift" | "lose" if content is not None and MARK in text and not self._torn and _SIGNATURE not in text:
                changed = text.replace("$false", "$true", 1) if step.how == "drift" else _BLOCK.sub("", text, count=1)
                self.host.files[PROFILE] = _encode(content, changed)
                is_ours = self.host.registry.find_value(LEDGER, powershell.LINE) is not None
                self._profile_drifted = is_ours and step.how == "drift"
                if not self._profile_drifted:
                    self.profile = self.host.files[PROFILE]
            case _:
                pass


def _decode(content: bytes | None) -> str:
    """Return the text of a profile, its byte order mark included; UTF-8 byte by byte."""
    if content is None:
        return ""
    return content.decode("utf-16-le" if content.startswith(_UTF_16) else "latin-1")


def _encode(content: bytes, text: str) -> bytes:
    """Return the bytes of a text in the encoding of `content`."""
    return text.encode("utf-16-le" if content.startswith(_UTF_16) else "latin-1")


def _with_line(content: bytes | None, line: str, *, at_end: bool) -> bytes:
    """Return a profile with another line, with the line ends that it has."""
    text = _decode(content)
    line_end = "\n" if "\n" in text and "\r\n" not in text else "\r\n"
    mark = next((mark for mark in ("\ufeff", "\xef\xbb\xbf") if text.startswith(mark)), "")
    rest = text.removeprefix(mark)
    if at_end:
        missing = line_end if rest and not rest.endswith("\n") else ""
        return _encode(content or b"", f"{mark}{rest}{missing}{line}{line_end}")
    return _encode(content or b"", f"{mark}{line}{line_end}{rest}")


def _policy_place(number: int) -> str:
    one = authorities()[number]
    store = certificates.get_policy_store_path(certificates.ROOT if one.subject == one.issuer else certificates.CA)
    return rf"{store}\{sha1(one)}"


def _path(service: str) -> str:
    return rf"{SERVICES}\{service}"


def _setting(path: str, name: str, value: Value | None) -> Edit:
    return DeleteValue(path, name) if value is None else SetValue(path, name, value)


def _name(item: str) -> str:
    return item.partition("=")[0].upper()


def _is_ours(item: str) -> bool:
    return MARK in item or (_name(item) in OURS and item.endswith("="))


def _appended(registry: Registry, service: str, item: str) -> Edit:
    value = registry.find_value(_path(service), "Environment")
    return SetValue(_path(service), "Environment", build_multi_sz([*(value.to_texts() if value else ()), item]))


def _place(number: int) -> str:
    one = authorities()[number]
    return rf"{certificates.get_store_path(certificates.ROOT if one.subject == one.issuer else certificates.CA)}\{sha1(one)}"


def shortest(history: History) -> History:
    """The history without the steps that it fails without as well."""
    at = 0
    while at < len(history.steps):
        less = msgspec.structs.replace(history, steps=(*history.steps[:at], *history.steps[at + 1 :]))
        if fault(less) is not None:
            history = less
        else:
            at += 1
    return history


def fault(history: History) -> str | None:
    """What is wrong with a history; None where nothing is."""
    try:
        lived(history)
    except AssertionError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  # whatever the planner raises is a counter-example
        return f"{type(error).__name__}: {error}"
    return None
