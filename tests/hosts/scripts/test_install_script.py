"""The script of a first configuration: every label once, no value, and nothing in it that cmd reads otherwise."""

import re

import msgspec
import pytest
from tests.windows.installations import CONTAINERD, EXE, KUBELET, SALT, A, B, host, reached, wish

from transom.hosts.errors import NotExpressible
from transom.hosts.owner import Owner
from transom.hosts.scripts import host_scripts, install_script
from transom.hosts.scripts.host_scripts import Script, ServiceTimeouts
from transom.windows.host.host_state import CHANGED, Preparation
from transom.windows.parts.files import FileRemoval
from transom.windows.parts.installation import Install
from transom.windows.parts.service import Configuration
from transom.windows.planning.planner import Plan, plan

PREPARED = wish(KUBELET, preparation=Preparation(True, "worker-1", (10250,), (r"C:\k",)))
FIRST = wish(KUBELET, CONTAINERD, files={EXE: A}, directories=(r"C:\k", r"C:\k\logs"), proxied=True)


def plans() -> dict[str, Plan]:
    found = reached(FIRST, host())
    changed = msgspec.structs.replace(KUBELET, image='"C:\\k\\a b.exe" --x="100%^&|"')
    return {
        "prepare": plan(PREPARED, host(), SALT),
        "first": plan(FIRST, host(files={EXE: CHANGED}), SALT),
        "upgrade": plan(wish(changed, CONTAINERD, files={EXE: B}, directories=(r"C:\k",)), found, SALT),
        "removal": plan(wish(payload=""), found, SALT),
    }


def rendered(planned: Plan) -> str:
    made = host_scripts.build_change_script(
        planned, host(), Owner("transom", "x"), "0123abcd", Script("gather-0.cmd", b""), patience=ServiceTimeouts()
    )
    return made.content.decode("ascii")


@pytest.mark.parametrize("kind", ["prepare", "first", "upgrade", "removal"])
def test_every_label_stands_once_and_every_jump_has_one(kind: str) -> None:
    # goto looks on from where it stands: a second label of one name would be taken for the first
    text = rendered(plans()[kind])
    labels = re.findall(r"^:(\w+)", text, re.MULTILINE)
    assert len(labels) == len(set(labels)), sorted(label for label in labels if labels.count(label) > 1)
    jumps = set(re.findall(r"\bgoto (\w+)", text)) | set(re.findall(r"\bcall :(\w+)", text))
    # the job's label is there where there is a job; nobody calls the script so otherwise
    assert jumps - {"job"} <= set(labels)
    assert "@" not in re.sub(r"^@echo off|transom@|@echo", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("kind", ["first", "upgrade"])
def test_command_lines_travel_in_files(kind: str) -> None:
    planned = plans()[kind]
    assert "--x" not in rendered(planned)
    images = [f.content.decode() for f in install_script.iter_script_files(planned) if f.name.startswith("image-")]
    if kind == "upgrade":
        # the last is what was there before
        assert images == ['\\"C:\\k\\a b.exe\\" --x=\\"100%^&|\\"\r\n', "C:\\k\\kubelet.exe --x=1\r\n"]


def test_a_trailing_backslash_does_not_take_the_quote() -> None:
    made = plan(wish(Configuration("a", "C:\\k\\a.exe --dir C:\\k\\")), host(), SALT)
    assert [f.content for f in install_script.iter_script_files(made) if f.name == "image-0.txt"] == [
        b"C:\\k\\a.exe --dir C:\\k\\\\\r\n"
    ]


@pytest.mark.parametrize(
    "install",
    [
        Install(delete=('x" & y',)),
        Install(remove=(FileRemoval(r"C:\k\%PATH%"),)),
        Install(directories=(r"D:\k",)),
        Install(leave=('C:\\k" & del C:\\x',)),
    ],
)
def test_what_cannot_be_named_is_refused(install: Install) -> None:
    with pytest.raises(NotExpressible):
        install_script.build_job_blocks(Plan(install=install), "0")
