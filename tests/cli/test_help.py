"""What a person meets first: help, completion, and what is wrong with a command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.cli.servers import kubeconfig
from tests.cli.tree import GROUPS, WITHOUT_DATA, commands
from tests.support.bundles import egress_proxy, secret, write
from tests.support.command import run

from transom.cli.examples import read_examples
from transom.cli.program import COMMANDS, build_program


@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_each_command_is_summed_up_in_a_sentence_that_fits(group: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = dict(commands(group))
    assert found
    assert [name for name, summary in found.items() if not summary.endswith(".") or summary.endswith("...")] == []
    for name in found.keys() - {group[0] for group in GROUPS if group}:
        told = run(*group, name, "-h")
        assert (told.code, told.err) == (0, "")
        assert f" {' '.join((*group, name))} [OPTIONS]" in told.out.partition("\n")[0]
        assert ("--output <text|json|yaml>" in told.out) == (name not in WITHOUT_DATA), name


def test_options_that_commands_share_describe_what_each_does() -> None:
    """`diff` changes nothing, although `apply` has the same options."""
    program = typer.main.get_command(build_program())
    told = {option.name: option.help for option in program.commands["diff"].params if option.name in ("objects", "remove")}  # type: ignore[attr-defined]  # a group
    assert {name: told[name].partition(" ")[0] for name in told} == {"objects": "Compare", "remove": "Show"}


def test_each_command_has_examples_that_are_right() -> None:
    """The options of each are there; what they do, the pages' blocks say."""
    root = typer.main.get_command(build_program())
    found = read_examples()
    names = {" ".join((*group, name)) for group in GROUPS for name in dict(commands(group))}
    assert found.keys() == names - {group[0] for group in GROUPS if group}
    for name, examples in found.items():
        for example in examples:
            words = example.replace("source <(", "").removesuffix(")").partition(" | ")[0].split()
            command, rest = root, [word.strip("'") for word in words[1:]]
            assert words[0] == "transom"
            for part in name.split():
                assert rest.pop(0) == part
                command = command.commands[part]  # type: ignore[attr-defined]  # groups alone have any
            command.make_context(name, rest)


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("transom no-", "no-proxy"),
        ("transom no-proxy l", "lint"),
        ("transom validate --outp", "--output"),
        ("transom no-proxy lint --client ur", "urllib"),
        ("transom capi worker --provider aw", "aws"),
        ("transom diff --kubeconfig CONFIG --context sta", "staging"),
        ("transom apply -f MANIFESTS --limit win-1", "win-1"),
        ("transom doc", "doctor"),
        ("transom status h", "host"),
        ("transom status -f MANIFESTS host wi", "win-1"),
    ],
)
def test_completion(words: str, completed: str, tmp_path: Path) -> None:
    instance = {"apiVersion": "transom.dev/v1alpha1", "kind": "WindowsInstance", "metadata": {"name": "win-1"}, "spec": {}}
    words = words.replace("CONFIG", kubeconfig(tmp_path / "config", "https://127.0.0.1:1"))
    words = words.replace("MANIFESTS", write(tmp_path, instance))
    asked = {"_TRANSOM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    program = Path(sys.executable).with_name("transom")
    done = subprocess.run([program], env={"PATH": os.defpath, **asked}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [completed]


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["no-"], ["no-proxy"]),
        (["no-proxy", ""], ["merge", "check", "lint"]),
        (["validate", "--outp"], ["--output"]),
        (["capi", "worker", "--provider", "aw"], ["aws"]),
        (["diff", "-f", ""], []),
    ],
)
def test_completion_by_kubectl(words: list[str], completed: list[str]) -> None:
    """As kubectl calls it; `tests/stories/test_pages.py` has kubectl itself."""
    program = Path(sys.executable).with_name("kubectl_complete-transom")
    done = subprocess.run([program, *words], env={"PATH": os.defpath}, capture_output=True, text=True, check=True)
    assert [line.partition("\t")[0] for line in done.stdout.splitlines() if line] == completed
    assert done.stderr == ""


LOADED = """
import sys
from transom.__main__ import main
try:
    main()
except SystemExit:
    pass
sys.stderr.write(" ".join(sys.modules))
"""
HEAVY = {"aiohttp", "asyncio", "asyncssh", "cryptography", "prometheus_client", "rich", "ssl", "structlog"}


@pytest.mark.parametrize("command", [("--help",), ("validate", "-f", "{}"), ("no-proxy", "merge", "-f", "{}"), ("manifests",)])
def test_a_command_imports_what_it_uses(command: tuple[str, ...], tmp_path: Path) -> None:
    directory = write(tmp_path, egress_proxy({"httpProxy": "http://p.x:1", "noProxy": "*"}))
    arguments = [part.format(directory) for part in command]
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert HEAVY & loaded == set()
    # nor another command
    assert command == ("--help",) or len({module for module, _ in COMMANDS.values()} & loaded) == 1


def test_the_names_of_contexts_need_no_client(tmp_path: Path) -> None:
    """A shell waits for them."""
    read = f"from transom.kube.kubeconfig import read_kubeconfig; read_kubeconfig({kubeconfig(tmp_path / 'config', 'https://127.0.0.1:1')!r}).contexts"
    told = f"import sys; {read}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


@pytest.mark.parametrize("command", [("validate", "-f", "x"), ("manifests",), ("run",), ("webhook",)])
def test_a_namespace_that_is_none(command: tuple[str, ...]) -> None:
    told = run(*command, "--namespace", "A b")
    assert (told.code, told.out) == (2, "")
    assert "'A b' is not a valid namespace" in told.err


def test_nothing_to_merge_is_said(tmp_path: Path) -> None:
    told = run("no-proxy", "merge", "-f", write(tmp_path, secret("s", stringData={"x": "y"})))
    assert (told.code, told.out, told.err) == (0, "", "transom: no list: neither settings nor a Cluster exist\n")
    assert run("no-proxy", "merge", "-f", write(tmp_path, egress_proxy({}))).out == "\n"


@pytest.mark.parametrize("command", ["build", "check"])
def test_a_payload_that_is_not_there(command: str, tmp_path: Path) -> None:
    told = run("payload", command, str(tmp_path))
    assert (told.code, told.out) == (2, "")
    assert f"{tmp_path}/payload.yaml: cannot be read: No such file or directory" in told.err
