"""Coverage-guided fuzzing of everything that reads settings, with atheris (not a dependency of the project).

In an environment of its own: `pip install atheris . hypothesis`, then
`python -m tests.sources.fuzz CORPUS -max_total_time=900 -max_len=4096`. A new directory CORPUS is filled with the examples.
Raises what should not be raised: anything but InvalidText and InvalidURL, and a password in a finding.
"""

import sys
from datetime import UTC, datetime
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["transom", "yaml"]):
    from transom.proxy import proxy_url
    from transom.proxy.trust import concerns, parse_bundle
    from transom.proxy.url import InvalidURL, parse
    from transom.sources.examination import examine
    from transom.sources.objects import ObjectReader
    from transom.sources.yaml_text import InvalidText, read_documents

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def one(data: bytes) -> None:
    """One input: as a file of manifests, as a URL, and as a bundle."""
    reader = ObjectReader()
    try:
        for document in read_documents(data):
            reader.add(document.value, "drawn", document.locate)
    except InvalidText as error:
        assert "hunter2" not in error.reason
    for finding in examine(reader.objects(), NOW).findings:
        shown = f"{finding.message} {finding.excerpt}"
        # a field that is wrongly named is shown, and so is an item of a list without an `@`
        assert "hunter2" not in shown or b"@" not in data or finding.field.startswith("spec.noProxy"), shown
    text = data.decode("utf-8", "replace")
    proxy_url.examine(text, ("http", "https"))
    try:
        repr(parse(text))
    except InvalidURL as error:
        assert "hunter2" not in str(error)
    bundle = parse_bundle(data)
    list(concerns(bundle.certificates, NOW))


def main() -> None:
    """Fill a new corpus, then fuzz."""
    corpus = Path(sys.argv[1])
    corpus.mkdir(parents=True, exist_ok=True)
    if not any(corpus.iterdir()):
        for example in (Path(__file__).parent / "examples").iterdir():
            (corpus / example.name).write_bytes(example.read_bytes())
        (corpus / "url").write_text("http://u:hunter2%25@[2001:db8::1]:3128/?q#f")
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
