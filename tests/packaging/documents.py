#!/usr/bin/env python3
"""Documents agree with what they speak of and with each other: links lead somewhere, tests that are named exist, claims of the papers
have tests and such tests claims, the promise of the opportunistic corrections is one sentence everywhere, and so is what ends a process,
coppice(7) knows every setting and its default and no other, and man pages format without a complaint (where groff is)."""
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


NAMED = re.compile(r"\[`(\w+)\.(\w+)`\]\(\.\./(\S+?)\)")
# What tests of a claim are called: after what the paper calls it, or after the table of docs/membership.md.
CLAIMED = re.compile(r"((Figure|Lemma|Claim|Corollary|Equation|Algorithm|Table|Theorem|Observation|Definition)\d+[a-z]?"
                     r"|Equations|TreePaper|Tsubame|Rules|PrintedRule|Abstract|Conclusion|Headline)\.|(RadixTree|Membership)\.M\d|MembershipClock\.[CE]\d")

# What each paper numbers, by the headings of docs/claims.md.
NUMBERED = {
    "Corrected trees (PPoPP'19)": {"Definition": 1, "Equation": 5, "Lemma": 3, "Corollary": 1, "Figure": 15, "Table": 1},
    "Corrected gossip (IPDPS'17)": {"Algorithm": 3, "Equation": 5, "Lemma": 4, "Claim": 5, "Corollary": 3, "Observation": 1, "Figure": 9},
    "Agreement (SC'15)": {"Lemma": 3, "Theorem": 5, "Figure": 4},
    "Membership (ICS'06)": {"Equation": 2, "Figure": 8},
}


def missing_tests(source):
    """Some documents name tests for what they claim: [`Suite.Name`](../tests/file)."""
    for page in ("docs/claims.md", "docs/corrections.md", "docs/gossip.md"):
        named = NAMED.findall((source / page).read_text(encoding="utf-8"))
        if not named:
            yield f"found no tests in {page}"
        for suite, name, file in named:
            path = source / file
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            a_test = rf"class {suite}\b.*\bdef {name}\(" if file.endswith(".py") else rf"\bTEST(_F|_P)?\(\s*{suite},\s*{name}\)"
            if not re.search(a_test, text, re.S):
                yield f"{page}: {file} has no test {suite}.{name}"


def claims_and_tests(source):
    """docs/claims.md: every claim has a test, or says why not, and every test that is called after a claim is one's."""
    text = (source / "docs/claims.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("| ") and line != "| claim | test |":
            claim, _, tests = line.strip().strip("|").partition(" | ")
            claim, tests = claim.strip(), tests.strip()
            if not NAMED.search(tests) and not re.match(r"none: \S", tests):
                yield f"docs/claims.md: no test for: {claim}"
    named = {f"{suite}.{name}" for suite, name, _ in NAMED.findall(text)}
    for path in sorted((source / "tests").rglob("*.cpp")):
        for suite, name in re.findall(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", path.read_text(encoding="utf-8")):
            if CLAIMED.match(f"{suite}.{name}") and f"{suite}.{name}" not in named:
                yield f"docs/claims.md: {path.relative_to(source)}: {suite}.{name} is a test without a claim"


def numbered_claims(source):
    """docs/claims.md: everything that a paper numbers has a row."""
    text = (source / "docs/claims.md").read_text(encoding="utf-8")
    for heading, kinds in NUMBERED.items():
        _, found, section = text.partition(f"\n## {heading}\n")
        if not found:
            yield f"docs/claims.md: there is no section {heading}"
        rows = re.findall(r"^\| (.*?) \| ", section.partition("\n## ")[0], re.M)
        for kind, count in kinds.items():
            named = [one for row in rows for one in re.findall(rf"\b{kind} (\d+)", row)]
            for several in re.findall(rf"\b{kind}s ((?:\d+|\(a to d\)|,| |and)+)", "\n".join(rows)):
                named += re.findall(r"\d+", several)
            for number in range(1, count + 1):
                if str(number) not in named:
                    yield f"docs/claims.md: {heading}: {kind} {number} has no row"


def in_plain_words(text):
    """Without the marks of Markdown, man and C comments, on one line."""
    text = re.sub(r"^\s*(>|\*(?!\*)|//)", " ", text, flags=re.M)
    return " ".join(re.sub(r"`|\\f.|\*", "", text).split())


def promises(source):
    """docs/corrections.md quotes the promise. README, coppice(7) and group.h have the same words, and the default. What gossip
    promises docs/gossip.md quotes, for coppice(7)."""
    def read(path):
        return (source / path).read_text(encoding="utf-8")
    corrections = read("docs/corrections.md")
    quoted = [in_plain_words(quote) for quote in re.findall(r"(?:^>.*\n)+", corrections, re.M)]
    if len(quoted) != 1 or not quoted[0].endswith("."):
        yield f"docs/corrections.md: {len(quoted)} quotations, where the promise should be the only one"
        return
    for page in ("README.md", "docs/man/coppice.7", "include/coppice/group.h"):
        text = in_plain_words(read(page))
        if quoted[0].rstrip(".") not in text:
            yield f"{page} does not say of opportunistic:D what docs/corrections.md says: {quoted[0]}"
        if re.search(r"\bdead( neighbours)? in a row\b", text):
            yield f"{page}: neighbours dead in a row are not what counts"
    gossip = [in_plain_words(quote) for quote in re.findall(r"(?:^>.*\n)+", read("docs/gossip.md"), re.M)]
    if len(gossip) != 1 or gossip[0] not in in_plain_words(read("docs/man/coppice.7")):
        yield f"docs/man/coppice.7 does not say of ocg what docs/gossip.md quotes: {gossip}"
    default = re.search(r'"COPPICE_CORRECTION",\s*"([^"]+)"', read("src/engine/settings.cpp")).group(1)
    for page, words in (("README.md", f"default: `{default}`"), ("include/coppice/group.h", f'"{default}" (default)'),
                        ("docs/corrections.md", f"**The default is `{default}`.**")):
        if words not in read(page):
            yield f"{page} does not name the default correction, {default}"
    known = set(re.findall(r"\w+", re.search(r"enum class ReachRule[^{]*{([^}]*)}", read("src/simulation/reach.hpp")).group(1)))
    for rule in sorted(known ^ set(re.findall(r"`ReachRule::(\w+)`", corrections))):
        yield f"docs/corrections.md: the predicate {rule} is {'not named' if rule in known else 'none'}"


def what_ends_a_process(source):
    """docs/security.md quotes what ends a process and what does not. README, coppice(7), coppice.h and the architecture have the
    same words, and no document promises more: a paragraph that says what does not end a process has them, too."""
    security = (source / "docs/security.md").read_text(encoding="utf-8")
    quoted = [in_plain_words(quote) for quote in re.findall(r"(?:^>.*\n)+", security, re.M)]
    if len(quoted) != 1 or "UCX" not in quoted[0]:
        yield f"docs/security.md: {len(quoted)} quotations, where what ends a process should be the only one"
        return
    headers = sorted((source / "include/coppice").glob("*.h*"))
    pages = [*source.glob("*.md"), *sorted((source / "docs").rglob("*.md")), *sorted((source / "docs/man").glob("*.[0-9]")), *headers]
    for page in pages:
        name = str(page.relative_to(source))
        text = in_plain_words(page.read_text(encoding="utf-8"))
        if name in ("README.md", "docs/man/coppice.7", "include/coppice/coppice.h", "docs/architecture.md") and quoted[0] not in text:
            yield f"{name} does not say what docs/security.md says of what ends a process: {quoted[0]}"
        promised = r"\b(?:[Nn]o call|[Nn]othing|ends no)\b[^.]*?\b(?:ends? (?:a|the) process|rank)\b[^.]*"
        for more in re.findall(promised, text.replace(quoted[0], "")):
            if re.search(r"ends? (a|the) process|ends no rank", more) and "UCX" not in more:
                yield f"{name} promises more than docs/security.md: {more}"


def settings_and_page(source):
    tables = [source / "src/engine/settings.cpp", *sorted(source.glob("src/transport/*/registration.cpp"))]
    known = dict(found for table in tables
                 for found in re.findall(r'SettingInfo\{\s*"(COPPICE_\w+)",\s*"([^"]*)"', table.read_text(encoding="utf-8")))
    known["COPPICE_TRANSPORT"] = "auto"  # its line names the transports that are compiled in
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


def largest_payload(source):
    """The bound of the code, where a user looks for it."""
    code = (source / "src/engine/wire/descriptor.hpp").read_text(encoding="utf-8")
    shift = int(re.search(r"kMaxBroadcast = std::uint64_t\{1\} << (\d+);", code).group(1))
    words = f"{1 << (shift % 10)} {['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][shift // 10]}"
    for name in ("README.md", "include/coppice/coppice.h", "include/coppice/group.h", "docs/man/coppice.7", "docs/payloads.md"):
        if not re.search(rf"\b{words}\b", (source / name).read_text(encoding="utf-8")):
            yield f"{name} does not say the largest payload, {words}"


def bad_pages(source):
    if not shutil.which("groff"):
        return
    for page in sorted((source / "docs/man").glob("*.[0-9]")):
        run = subprocess.run(["groff", "-k", "-man", "-Tutf8", "-ww", page], capture_output=True, text=True, check=False)
        if run.stderr or run.returncode:
            yield f"{page.name}: {run.stderr.strip() or run.returncode}"


def main():
    source = pathlib.Path(sys.argv[1])
    found = [*broken_links(source), *missing_tests(source), *claims_and_tests(source), *numbered_claims(source), *promises(source), *what_ends_a_process(source),
             *settings_and_page(source), *largest_payload(source), *bad_pages(source)]
    print("\n".join(found) or "documents are in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
