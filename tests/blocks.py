"""The fenced blocks of a Markdown page: found, executed in order in one folder, and compared with the output the page shows.

    python   executed; blocks of a page share their names; a first line `# name.py` writes it to that file as well
    bash     each line a `mixflow` command, executed in this process
    toml     a sweep's description; a first line `# name.toml` writes it to that file, otherwise it completes the last one
    text     right after an executed block: what that block prints; … stands for anything

A block that the tests cannot run says so in its first line, visibly: `# not run by the tests: <why>`.
"""

import contextlib
import io
import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# build: what tools made; everything else that ends in .md is read by people and must hold.
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "benchmarks/README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
LANGUAGES = ("python", "bash", "toml", "text")
MARKER = re.compile(r"^# not run by the tests: \w.{8,}$")
FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,}|:{3,})(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str

    @property
    def marked(self):
        """Whether its first line says why the tests cannot run it."""
        return bool(MARKER.match(self.text.split("\n")[0]))

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def blocks(page):
    """The fenced blocks of a page in order; directives of the handbook ({picture}, {source}, …) are the build's business."""
    text = (ROOT / page).read_text()
    for found in FENCE.finditer(text):
        language = found["info"].strip()
        if not language.startswith("{"):
            yield Block(page, text[: found.start()].count("\n") + 1, language, found["body"])


def prose(page):
    """The page without its fenced blocks."""
    return FENCE.sub("", (ROOT / page).read_text())


def run_page(page, report):
    """Execute the page's blocks in the current folder; `report(block, printed)` is given what each `text` block must equal."""
    names, printed, last = {"__name__": "__main__"}, None, None
    for block in blocks(page):
        if block.language == "text":
            if printed is not None:
                report(block, printed)
            printed = None
        elif block.marked:
            printed = None
        elif block.language == "toml":
            last, printed = _describe(block, last), None
        else:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                if block.language == "python":
                    if file := re.match(r"# ([\w-]+\.py)\n", block.text):
                        Path(file[1]).write_text(block.text)
                    exec(compile(block.text, block.place, "exec"), names)
                else:
                    _shell(block)
            printed = out.getvalue()


def same(shown, printed):
    """Whether the output is what the page shows, up to white space and the ellipses of the page."""
    squeeze = lambda text: " ".join(text.split())  # noqa: E731
    pattern = ".*?".join(map(re.escape, squeeze(shown).split("…")))
    return re.fullmatch(pattern, squeeze(printed), re.S) is not None


def commands(block):
    """The command lines of a bash block, comments and continuation lines resolved."""
    lines = block.text.replace("\\\n", " ").split("\n")
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def _shell(block):
    from mixflow.cli import main

    for words in commands(block):
        if words[0] == "mixflow":
            code = main(words[1:])
            assert code == 0, f"{block.place}: {shlex.join(words)} ended with exit code {code}"
        else:
            raise AssertionError(f"{block.place}: the tests cannot run {words[0]!r}; mark the block and say why")


def _describe(block, last):
    """Check a sweep's description, alone or completing the last whole one of the page; returns the last whole one."""
    from mixflow.sweeping.spec import Sweep

    text, first = block.text, block.text.split("\n")[0]
    found = tomllib.loads(text)
    if name := re.fullmatch(r"# ([\w-]+\.toml)", first):
        Path(name[1]).write_text(text)
        last = found
    axes = {"grid", "random", "list", "seeds"}
    kept = {key: value for key, value in (last or {}).items() if not (axes & set(found) and key in axes)}
    Sweep.of({**kept, **found})
    return last
