"""Plants a fault in a copy of a source and builds a program, or the library, with it. Nothing of the build directory changes.

A fault is a place in one file and what takes its place. Whatever of the program is compiled from that file, or includes it, is compiled
again and linked in the place of what was there. The place has to be in the source exactly once: otherwise it is to be planted elsewhere.
"""

import dataclasses
import functools
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import time

LIBRARY = "src/api/libcoppice.so.0.1.0"
# A test that hangs has noticed.
MOST_SECONDS = 300


@dataclasses.dataclass(frozen=True)
class Fault:
    """`before`, which `source` has once, becomes `after`."""
    name: str
    source: str
    before: str
    after: str


@dataclasses.dataclass(frozen=True)
class Catcher:
    """A program and how it is called. It catches a fault by not ending with 0, or by hanging; with `finds`, by printing that."""
    program: str
    arguments: tuple = ()
    finds: str = ""
    linked: str = ""  # what is linked again, if not the program: the library that it loads

    def called(self):
        return " ".join((self.program,) + self.arguments)


class CannotBePlanted(Exception):
    """The source is not what the fault was made for."""


class TimeIsOver(Exception):
    """The deadline has come; what was under way has been ended."""


class Planter:
    """`deadline`: when to end, by time.monotonic(); without one whenever all is done."""
    def __init__(self, build, source_dir, deadline=None):
        self.build = pathlib.Path(build).resolve()
        self.source_dir = pathlib.Path(source_dir).resolve()
        self.deadline = deadline

    def _left(self):
        return math.inf if self.deadline is None else self.deadline - time.monotonic()

    def make(self, *words):
        """Runs it, and ends it at the deadline."""
        self._run(words)

    def _asked(self, *words):
        """What it prints."""
        return self._run(words, subprocess.PIPE)

    def _run(self, words, stdout=None):
        if self._left() <= 0:
            raise TimeIsOver
        with subprocess.Popen(words, cwd=self.build, stdout=stdout, text=True) as process:
            try:
                printed, _ = process.communicate(timeout=None if self.deadline is None else self._left())
            except subprocess.TimeoutExpired as why:
                process.terminate()
                raise TimeIsOver from why
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, words)
        return printed

    def check(self, fault):
        """The source with the fault in it."""
        text = (self.source_dir / fault.source).read_text(encoding="utf-8")
        times = text.count(fault.before)
        if times != 1:
            raise CannotBePlanted(f"'{fault.name}' cannot be planted any more: {fault.source} has its place {times} times, not once:\n"
                                  f"{fault.before}\nPlant it where the code does that now.")
        return text.replace(fault.before, fault.after)

    def plant(self, fault, target, into):
        """Builds `target` with the fault; the path of what was built, below the folder `into`."""
        copy = into / fault.source
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(self.check(fault), encoding="utf-8")
        made = {}
        try:
            for name, command in self._compilations(fault.source, target, into):
                self.make(*command)
                made[name] = command[command.index("-o") + 1]
            return self._link(target, made, into)
        except subprocess.CalledProcessError as why:
            raise CannotBePlanted(f"'{fault.name}' cannot be built: {why.cmd[0]} ended with {why.returncode}") from why

    def planted_says(self, fault, catcher, into):
        """What the catcher says of the fault; None if it does not notice."""
        linked = self.plant(fault, catcher.linked or catcher.program, into)
        if not catcher.linked:
            return self.says(catcher, linked)
        (into / "libcoppice.so.0").symlink_to(linked.name)
        return self.says(catcher, self.build / catcher.program, into)

    def says(self, catcher, program=None, library_dir=None):
        environment = dict(os.environ)
        if library_dir:
            environment["LD_LIBRARY_PATH"] = str(library_dir)
        if self._left() <= 0:
            raise TimeIsOver
        try:
            ended = subprocess.run([program or self.build / catcher.program, *catcher.arguments], env=environment, capture_output=True,
                                   text=True, errors="replace", timeout=min(MOST_SECONDS, self._left()), check=False)
        except subprocess.TimeoutExpired as why:
            if self._left() <= 0:
                raise TimeIsOver from why
            return "it hung"
        words = (ended.stdout + ended.stderr).strip()
        if re.search(r"\b0 tests from 0 test suites", words):
            raise CannotBePlanted(f"there is no such test: {catcher.called()}")
        if catcher.finds:
            return words if ended.returncode == 0 and re.match(catcher.finds, words) else None
        if ended.returncode == 0:
            return None
        failed = re.search(r"^\[  FAILED  \] ([^ ,]+)", words, re.MULTILINE)
        last = words.splitlines()[-1] if words else ""
        return failed[1] if failed else f"ended with {ended.returncode}: {last}"

    def has_tests(self, catcher):
        """Whether a test that it asks for exists; also where its program is not built, or no test program."""
        names = [word for word in catcher.arguments if word.startswith("--gtest_filter=")]
        program = self.build / catcher.program
        if not names or not program.exists():
            return True
        listed = subprocess.run([program, *names, "--gtest_list_tests"], capture_output=True, text=True, check=True, timeout=60)
        return any(line.startswith("  ") for line in listed.stdout.splitlines())

    def _compilations(self, source, target, into):
        """Of each object of `target` that `source` is a part of: its name, and the command that makes another one below `into`."""
        wanted = self.source_dir / source
        found = False
        for name in self._objects_of(target):
            words, path = self._commands[name]
            is_source = path == wanted
            if not is_source and not (source.endswith(".hpp") and wanted in self._includes.get(name, ())):
                continue
            found = True
            words = [word for word in words if word not in ("-Werror", "-MD", "-O3")]
            for option in ("-MF", "-MQ"):
                if option in words:
                    place = words.index(option)
                    del words[place:place + 2]
            if is_source:
                words[words.index("-c") + 1] = str(into / source)
            words[words.index("-o") + 1] = str(into / name.replace("/", "_"))
            compiler = next(i for i, word in enumerate(words) if word.startswith("-"))
            folders = [f"-I{into / 'src'}", f"-I{(into / source).parent}", f"-I{wanted.parent}"]
            yield name, words[:compiler] + folders + ["-O1", "-w"] + words[compiler:]
        if not found:
            raise CannotBePlanted(f"{source}: nothing of {target} is compiled from it")

    def _link(self, target, made, into):
        words = []
        is_whole = False
        for word in shlex.split(self._ninja("-t", "commands", "-s", target).splitlines()[-1]):
            is_whole = word == "-Wl,--whole-archive" or (is_whole and word != "-Wl,--no-whole-archive")
            if is_whole and word.endswith(".a"):
                words += [made.get(member, member) for member in self._members(word)]
            elif word.endswith(".a") and not word.startswith("/"):
                words.append(self._archive(word, made, into))
            else:
                words.append(made.get(word, word))
        linked = into / pathlib.Path(target).name
        place = words.index("-o") + 1
        words[place] = str(linked)
        if any(word.endswith(".a") and not word.startswith("/") and not self._is_thin(word) for word in words):
            # Before the archives: their own objects are not taken then.
            words[place + 1:place + 1] = [path for path in made.values() if path not in words]
        self.make(*words)
        return linked

    def _archive(self, archive, made, into):
        """The archive, or one that has what was made in the place of what was there."""
        if not self._is_thin(archive):
            return archive
        members = self._members(archive)
        if not any(member in made for member in members):
            return archive
        other = str(into / archive.replace("/", "_"))
        self.make("ar", "rcsT", other, *(made.get(member, str(self.build / member)) for member in members))
        return other

    def _members(self, archive):
        folder = f"{archive}.p/"
        listed = self._asked("ar", "t", archive).split()
        return [member if member.startswith(folder) else folder + pathlib.Path(member).name for member in listed]

    def _ninja(self, *arguments):
        return self._asked("ninja", *arguments)

    @functools.lru_cache(maxsize=None)
    def _objects_of(self, target):
        """What is linked: of an archive the linker takes only what is needed."""
        words = shlex.split(self._ninja("-t", "commands", "-s", target).splitlines()[-1])
        words[words.index("-o") + 1] = os.devnull
        linked = self._asked(*words, "-Wl,--trace").splitlines()
        # Of an archive that holds copies it does not say which.
        if any(line.endswith(".a") and not line.startswith("/") and not self._is_thin(line) for line in linked):
            linked = self._ninja("-t", "inputs", target).splitlines()
        return [line for line in dict.fromkeys(linked) if line in self._commands]

    def _is_thin(self, archive):
        with (self.build / archive).open("rb") as file:
            return file.read(8) == b"!<thin>\n"

    @functools.cached_property
    def _commands(self):
        """By object: the words of its command, and its source."""
        commands = {}
        for entry in json.loads((self.build / "compile_commands.json").read_text(encoding="utf-8")):
            words = shlex.split(entry["command"])
            commands[words[words.index("-o") + 1]] = words, (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        return commands

    @functools.cached_property
    def _includes(self):
        """By object: what it is made from, as the compiler said."""
        includes = {}
        for line in self._ninja("-t", "deps").splitlines():
            if line.startswith("    "):
                includes[name].add((self.build / line.strip()).resolve() if line.startswith("    ..") else self.build / line.strip())
            elif ": #deps" in line:
                name = line.split(": #deps")[0]
                includes[name] = set()
        return includes
