"""Which tests a change can break."""

import subprocess
from pathlib import Path

import pytest
from tests.support.changed import PACKAGES, ROOT, Project, changes

FILES = {
    "src/shop/__init__.py": "",
    "src/shop/__main__.py": "def main():\n    import shop.till\n",
    "src/shop/till.py": "from shop import prices",
    "src/shop/prices.py": "",
    "src/shop/unused.py": "",
    "src/shop/named.py": "",
    "src/shop/letters/__init__.py": "",
    "src/shop/letters/post.py": "",
    "src/shop/letters/files/dear.txt": "Dear",
    "trials/conftest.py": "import pytest\n@pytest.fixture\ndef post():\n    from shop.letters import post",
    "trials/buyer.py": 'COMMAND = ["python", "-m", "shop"]',
    "trials/test_buyer.py": "from trials import buyer",
    "trials/test_post.py": "def test(post): pass",
    "trials/test_asked.py": 'def test(request): request.getfixturevalue("post")',
    "trials/test_prices.py": "from shop.prices import X",
    "trials/loader.py": 'import importlib\nimportlib.import_module("shop.named")',
    "trials/test_named.py": "from trials import loader",
    "trials/test_page.py": 'PAGE = "prices.md"',
    "trials/deep/conftest.py": "import pytest\n@pytest.fixture\ndef till(post):\n    pass",
    "trials/deep/test_till.py": "def test(till): pass",
    "trials/deep/test_alone.py": "def test(): pass",
}
CASES = [
    (["src/shop/prices.py"], ["test_buyer", "test_prices"]),
    (["src/shop/till.py"], ["test_buyer"]),
    (["src/shop/unused.py"], []),
    (["src/shop/named.py"], ["test_named"]),
    (["src/shop/letters/post.py"], ["deep/test_till", "test_asked", "test_post"]),
    (["src/shop/letters/files/dear.txt"], ["deep/test_till", "test_asked", "test_post"]),
    (["trials/buyer.py"], ["test_buyer"]),
    (["trials/test_page.py", "trials/test_gone.py"], ["test_page"]),
    (["trials/deep/conftest.py"], ["deep/test_alone", "deep/test_till"]),
    (["docs/prices.md"], ["test_page"]),
    (["docs/other.md", "CHANGELOG.md"], []),
    (["benchmarks/speed.py"], []),
    (["src/shop/gone.py"], None),
    (["docs/other.md", "pyproject.toml"], None),
    (["scripts/test"], None),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    root = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root))
        patch.syspath_prepend(str(root / "src"))
        return Project(root, {"shop": "src", "trials": "."}, "trials")


@pytest.mark.parametrize(("changed", "expected"), CASES, ids=lambda value: value[0] if value else str(value))
def test_affected(project: Project, changed: list[str], expected: list[str] | None):
    found = project.affected(changed)
    assert found == (None if expected is None else [f"trials/{name}.py" for name in expected])


def test_every_test_of_this_repository_is_affected_by_itself():
    project = Project(ROOT, PACKAGES, "tests")
    files = [source.file for name, source in project.modules.items() if "/test_" in source.file]
    assert len(files) > 100
    assert [file for file in files if file not in (project.affected([file]) or ())] == []


def test_changes(tmp_path: Path):
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--initial-branch", "other")
    (tmp_path / "kept.py").touch()
    (tmp_path / "removed.py").touch()
    git("add", ".")
    git("commit", "--message", "1")
    assert changes(tmp_path) is None
    git("branch", "main")
    (tmp_path / "committed.py").touch()
    git("add", ".")
    git("commit", "--message", "2")
    git("mv", "removed.py", "renamed.py")
    (tmp_path / "kept.py").write_text("X = 1")
    (tmp_path / "new.py").touch()
    assert changes(tmp_path) == ["committed.py", "kept.py", "new.py", "removed.py", "renamed.py"]
