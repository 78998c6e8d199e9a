"""Inputs that are too large, too deep or not what they seem."""

import yaml
from tests.support.bundles import config_map

HEAD = "apiVersion: transom.dev/v1alpha1\nkind: EgressProxy\nmetadata: {name: cluster}\nspec:\n  httpProxy: http://p.x:1\n"
EXPLODING = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 10)}]\n" for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
LONG_CERTIFICATE = "-----BEGIN CERTIFICATE-----\n" + ("QUJD" * 16 + "\n") * 16_000 + "-----END CERTIFICATE-----\n"
BAD: dict[str, tuple[bytes, str]] = {
    "a file of 10 MB": (b"a: " + b"x" * (10 << 20), "at most 8,388,608 are read"),
    "10,000 items in a list": (f"{HEAD}  consumers: [{','.join(['Nodes'] * 10_000)}]\n".encode(), "more than 9,999 items"),
    "10,000 items of noProxy": ((HEAD + "  noProxy: " + "a.x," * 9_999 + "b.x").encode(), "has 10,000 items"),
    "10,000 bad items in noProxy": (f"{HEAD}  noProxy: '{','.join(['*.x'] * 10_000)}'\n".encode(), "has 10,000 items"),
    "a NUL": (f"{HEAD}  noProxy: a\0b\n".encode(), "the text has a NUL character"),
    "an escaped NUL": (f'{HEAD}  noProxy: "a\\0b"\n'.encode(), "must not have a NUL character"),
    "a lone surrogate": (f'{HEAD}  noProxy: "a\\ud800b"\n'.encode(), "invalid Unicode character escape code"),
    "a lone surrogate in UTF-8": (HEAD.encode() + b"  noProxy: a\xed\xa0\x80b\n", "the text is not UTF-8"),
    "UTF-16": (HEAD.encode("utf-16"), "save it as UTF-8"),
    "anchors that explode": (EXPLODING.encode(), "aliases counted each time"),
    "merge keys that explode": (
        b"a: &a {" + b",".join(b"k%d: 1" % n for n in range(1000)) + b"}\nb: [" + b",".join([b"{<<: *a}"] * 1000) + b"]\n",
        "aliases counted each time",
    ),
    "an alias within its anchor": (b"a: &a [*a]\n", "within its own anchor"),
    "an alias without an anchor": (b"a: *b\n", "no anchor before it"),
    "a deep nest": (b"a: " + b"[" * 100_000, "nested more than 64"),
    "a deep nest of mappings": (b"".join(b" " * n + b"a:\n" for n in range(2_000)), "nested more than 64"),
    "keys twice": (f"{HEAD}  httpProxy: http://q.x:1\n".encode(), "duplicate key"),
    "a certificate of 1 MB": (
        yaml.dump(config_map("ca", {"ca-bundle.crt": LONG_CERTIFICATE}), Dumper=yaml.CSafeDumper).encode(),
        "certificate is too large",
    ),
    "a tag": (b"a: !!python/object/apply:os.system [id]\n", "the tag of this value is not supported"),
    "a key that is none": (b"[a]: b\n", "a key must be a string"),
    "an open quote": (f'{HEAD}  noProxy: "a\n'.encode(), "this is not YAML"),
    "a tab": (b"a:\n\tb: c\n", "this is not YAML"),
    "a control character": (b"a: \x01\n", "a character that YAML does not allow"),
    "many values": (b"- {a: b}\n" * 9_000 + b"a: b", "this is not YAML"),
    "a list of objects that are none": (b"apiVersion: v1\nkind: List\nitems: [1, a, null, []]\n", "it must be a mapping"),
    "no object": (b"just a text\n", "it must be a mapping"),
    "no kind": (b"apiVersion: v1\n", "`kind` is missing"),
}  # fmt: skip
LIMITED = """
import json, re, sys
from datetime import UTC, datetime
from transom.sources.directory import load_objects
from transom.sources.examination import examine_objects
for directory in sys.argv[1:]:
    findings = examine_objects(load_objects([directory]), datetime.now(UTC)).findings
    # not ru_maxrss: that begins with the peak of the process that started this one
    peak = int(re.search("VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
    print(json.dumps([peak, [f.message for f in findings]]))
"""
