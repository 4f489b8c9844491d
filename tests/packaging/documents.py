#!/usr/bin/env python3
"""Documents agree with what they speak of: links lead somewhere, tests that are named exist, coppice(7) knows every
setting and its default and no other, and man pages format without a complaint (where groff is)."""
import pathlib
import re
import shutil
import subprocess
import sys


def broken_links(source):
    pages = [*source.glob("*.md"), *(source / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path = target.split("#")[0]
            if path and not re.match(r"[a-z]+:", target) and not (page.parent / path).exists():
                yield f"{page.relative_to(source)}: {target} leads nowhere"


def missing_tests(source):
    """docs/claims.md names a test for each claim of the papers: [`Suite.Name`](../tests/file)."""
    named = re.findall(r"\[`(\w+)\.(\w+)`\]\(\.\./(\S+?)\)", (source / "docs/claims.md").read_text(encoding="utf-8"))
    if not named:
        yield "found no tests in docs/claims.md"
    for suite, name, file in named:
        path = source / file
        if not path.exists() or not re.search(rf"\bTEST(_F|_P)?\(\s*{suite},\s*{name}\)", path.read_text(encoding="utf-8")):
            yield f"docs/claims.md: {file} has no test {suite}.{name}"


def settings_and_page(source):
    table = (source / "src/engine/settings.cpp").read_text(encoding="utf-8")
    known = dict(re.findall(r'SettingInfo\{"(COPPICE_\w+)",\s*"([^"]*)"', table))
    page = (source / "docs/man/coppice.7").read_text(encoding="utf-8")
    environment = page.split(".SH ENVIRONMENT")[1].split(".PP\n.BR coppice-run")[0]
    headings = re.findall(r"\.TP\n\.B ([^\n]*)\n(.*?)(?=\.TP|\Z)", environment, re.S)
    described = {name: text for names, text in headings for name in re.findall(r"COPPICE_\w+", names)}
    if not known:
        yield "found no settings in src/engine/settings.cpp"
    for name in sorted(known.keys() ^ described.keys()):
        yield f"coppice.7: {name} is {'not described' if name in known else 'no setting'}"
    for name in sorted(known.keys() & described.keys()):
        if known[name] and known[name] not in described[name]:
            yield f"coppice.7: {name}: the default, {known[name]}, is not named"


def bad_pages(source):
    if not shutil.which("groff"):
        return
    for page in sorted((source / "docs/man").glob("*.[0-9]")):
        run = subprocess.run(["groff", "-k", "-man", "-Tutf8", "-ww", page], capture_output=True, text=True, check=False)
        if run.stderr or run.returncode:
            yield f"{page.name}: {run.stderr.strip() or run.returncode}"


def main():
    source = pathlib.Path(sys.argv[1])
    found = [*broken_links(source), *missing_tests(source), *settings_and_page(source), *bad_pages(source)]
    print("\n".join(found) or "documents are in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
