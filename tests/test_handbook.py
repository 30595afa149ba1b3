"""The handbook cannot rot: what it shows is executed, what it names exists, what it links to is there, what it says is so."""

import argparse
import ast
import inspect
import re
from pathlib import Path

import blocks
import pytest
from test_house import PLAN

import mixflow as mf
from mixflow.cli import _parser
from mixflow.commands import NAMES

pytestmark = pytest.mark.as_user

ROOT = blocks.ROOT
TEXTS = {page: (ROOT / page).read_text() for page in blocks.PAGES}
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
RUN = [page for page in blocks.PAGES if any(b.language != "text" and not b.marked for b in blocks.blocks(page))]


@pytest.mark.parametrize("page", blocks.PAGES)
def test_every_block_is_executed_or_says_why_not(page):
    for block in blocks.blocks(page):
        assert block.language in blocks.LANGUAGES, f"{block.place}: a block in {block.language!r} is not executed"
        claims = block.text.startswith("# not run")
        assert block.marked or not claims, f"{block.place}: write '# not run by the tests: ' and a reason"
    hidden = re.findall(r"^ {4,}(?:mixflow|python|make) \S+.*$", blocks.prose(page), re.M)
    assert not hidden, f"{page}: a command in an indented block is not executed; use a fence: {hidden}"


@pytest.mark.parametrize("page", RUN)
def test_page_runs_and_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")

    def compare(block, printed):
        assert blocks.same(block.text, printed), f"{block.place} shows\n{block.text}\nbut this is printed\n{printed}"

    blocks.run_page(page, compare)


def test_a_wrong_output_is_noticed():
    assert blocks.same("loss 0.0032…\nstages", "loss  0.003296\nstages\n")
    assert not blocks.same("loss 0.0034…", "loss 0.003296")
    assert not blocks.same("loss 0.003296", "loss 0.003296 and more")


def flags():
    """{command: its flags} from the parser itself."""
    (commands,) = (action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction))
    return {name: set(parser._option_string_actions) for name, parser in commands.choices.items()}


def documented_commands():
    for page in blocks.PAGES:
        for block in blocks.blocks(page):
            if block.language == "bash":
                yield from ((block.place, words) for words in blocks.commands(block))
        for code in INLINE.findall(blocks.prose(page)):
            yield page, code.split()


def test_documented_commands_and_flags_exist():
    known, seen = flags(), set()
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split()
    for place, words in documented_commands():
        if words[:1] == ["mixflow"] and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
            assert words[1] in NAMES, f"{place}: there is no command {words[1]!r}"
            seen.add(words[1])
            given = {word.split("=")[0] for word in words[2:] if re.match(r"--\w", word)}
            assert given <= known[words[1]], f"{place}: mixflow {words[1]} has no {', '.join(given - known[words[1]])}"
        elif words[:1] == ["make"] and len(words) > 1:
            assert words[1] in targets, f"{place}: the Makefile has no target {words[1]!r}"
    assert seen == set(NAMES), f"no page speaks of {set(NAMES) - seen}"


def test_flags_named_alone_exist():
    """Inline code that begins with a flag belongs to some command (or to make, pytest, xla: listed here)."""
    known = set.union(*flags().values()) | {"--check", "--torch-python", "--without-engine", "--seeds", "--full"}
    for page in blocks.PAGES:
        for code in INLINE.findall(blocks.prose(page)):
            if re.match(r"--[a-z]", code) and not code.startswith("--xla"):
                flag = re.split(r"[ =]", code)[0]
                assert flag in known or page == "benchmarks/README.md", f"{page}: no command has {flag}"


def test_public_names_in_the_pages_exist():
    for page, text in TEXTS.items():
        for name in re.findall(r"\bmf\.([A-Za-z_]\w*)", text):
            assert name in mf.__all__, f"{page}: mf.{name} is not a public name"
        for file in re.findall(r"`(?:\.\./)*((?:mixflow|tests|examples|benchmarks|docs)/[\w/-]+\.(?:py|md|c))\b", text):
            assert (ROOT / file).exists(), f"{page}: {file} does not exist"


def test_the_reference_has_every_public_name():
    listed = re.findall(r"^\.\. auto\w+:: mixflow\.(\w+)$", TEXTS["docs/reference/api.md"], re.M)
    assert sorted(listed) == sorted(mf.__all__)


# What the description of an argument must mention: its shape, its unit, its range.
SHAPE_OR_UNIT = {
    "features": "F", "atoms": "n ", "labels": "n ", "probabilities": "n ", "hard": "n ", "names": "n ", "gram": "×",
    "priors": "K ", "classes": "K", "width": "m", "dimension": "d", "omega": "ω", "bias": "b", "digits": "K",
    "learning_rate": "η", "learning_rates": "divide", "steps": "number", "save_every": "steps", "points": "number",
    "until": "time", "limit": "time", "rtol": "relative", "atol": "absolute", "save_at": "times", "threshold": "units",
    "neurons": "duration", "converge": "duration", "three_stage": "durations",
    "test_fraction": "of", "max_core_hours": "core-hours", "workers": "number", "dashboard": "port", "time": "time",
    "step": "whole number", "dataset": "(time, head, key, query)", "path": "file", "folder": "path",
}  # fmt: skip


def rows(text):
    """{argument: what is said of it} from the aligned rows of a docstring."""
    found, current = {}, []
    for line in text.split("\n"):
        if row := re.match(r"^([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*)  +(\S.*)$", line):
            current = row[1].split(", ")
            found |= dict.fromkeys(current, row[2])
        elif line.startswith("  ") and line.strip() and current:
            found |= {name: f"{found[name]} {line.strip()}" for name in current}
        else:
            current = []
    return found


@pytest.mark.parametrize("name", mf.__all__)
def test_every_public_name_is_documented(name):
    thing = getattr(mf, name)
    text = inspect.getdoc(thing) or ""
    own = thing.__doc__ or ""
    assert own.strip(), f"mf.{name} has no docstring of its own"
    assert ">>> " in text, f"mf.{name}: an example is missing"
    assert re.search(r"\b[Rr]aise[sd]\b", text), f"mf.{name}: what it raises is missing"
    if inspect.ismodule(thing):
        for part in thing.__all__:
            member = getattr(thing, part)
            assert not callable(member) or len(member.__doc__ or "") > 20, f"mf.{name}.{part} has no docstring"
            assert name != "variants" or ">>> " in inspect.getdoc(member), f"mf.{name}.{part}: an example is missing"
        return
    own_arguments = not isinstance(thing, type) or "__init__" in vars(thing)  # some errors have none
    said = rows(text)
    for parameter in inspect.signature(thing).parameters if own_arguments else ():
        if parameter != "message":
            assert parameter in said, f"mf.{name}: the argument {parameter} is not described"
            wanted = SHAPE_OR_UNIT.get(parameter, "")
            assert wanted in said[parameter], f"mf.{name}: {parameter}: its shape or unit ({wanted}) is missing"
    if inspect.isfunction(thing):
        assert re.search(r"\breturn|\bReturns\b|^The |result", text, re.I | re.M), (
            f"mf.{name}: what it returns is missing"
        )


@pytest.mark.parametrize(
    "kind", ["Run", "Mixture", "Sample", "FiniteTask", "Transformer", "GradientFlow", "ThreeStage", "Until"]
)
def test_every_public_method_is_documented(kind):
    for name, member in vars(getattr(mf, kind)).items():
        if name.startswith("_") or name in ("from_spec", *getattr(mf, kind).__dataclass_fields__):
            continue
        said = inspect.getdoc(member) if not isinstance(member, property) else member.fget.__doc__
        assert said, f"mf.{kind}.{name} has no docstring"
        assert len(said) > 10, f"mf.{kind}.{name}: {said!r} says nothing"


def slugs(path):
    """The anchors that GitHub and MyST make of the headings of a page and of what it includes."""
    text = path.read_text()
    if included := re.match(r"```\{include\} (\S+)", text):
        return slugs(path.parent / included[1])
    heads = re.findall(r"^#{1,6} +(.+?) *$", blocks.FENCE.sub("", text), re.M)
    plain = [re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", lambda m: m[1] or "", head).lower() for head in heads]
    return {re.sub(r"[^\w\- ]", "", head).replace(" ", "-") for head in plain}


def test_links_between_files_resolve():
    for page, text in TEXTS.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", blocks.FENCE.sub("", text)):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            path = (ROOT / page).parent / file if file else ROOT / page
            assert path.exists(), f"{page}: {target} does not exist"
            if anchor:
                assert anchor in slugs(path), f"{page}: {target} has no such heading"


def test_every_equation_of_the_story_points_to_its_function():
    """Before the next heading; that the function exists is a matter of the build. Pictures name their script by themselves."""
    text = TEXTS["docs/story.md"]
    parts = re.split(r"^## ", text, flags=re.M)
    assert text.count("$$") >= 12
    for part in parts:
        *_, after = part.rsplit("$$", 1)
        assert "$$" not in part or "{source}`" in after, (
            f"no function after the last equation of {part.splitlines()[0]!r}"
        )
    assert not re.search(r"!\[", text), "pictures of the story are made by {picture}, which names the script"


def test_notation_agrees_with_the_dataset_and_the_mathematics():
    table = {}
    for line in TEXTS["docs/reference/notation.md"].split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and "`" in cells[1]:
            table |= dict.fromkeys(re.findall(r"`([A-Za-z_]\w*)", cells[1]), cells)
    data = mf.train(mf.Mixture(), mf.Transformer(width=4), mf.GradientDescent(steps=5)).dataset
    checked = 0
    for name, cells in table.items():
        if name in data and " × " in cells[2]:
            shape = ("head", "key", "query") if name in ("W_K", "W_Q") else tuple(cells[2].split(" × "))
            assert data[name].dims == shape, f"{name}: the page says {cells[2]}"
            checked += 1
    assert checked >= 6
    mathematics = TEXTS["docs/mathematics.md"].split("## 10. Notation")[1]
    named = {name for line in mathematics.split("\n") for name in re.findall(r"^\|[^|]*\| *`([A-Za-z_]\w*)", line)}
    assert named <= set(table), f"the notation page lacks {named - set(table)}"


def test_versions_agree():
    pyproject, citation = (ROOT / "pyproject.toml").read_text(), (ROOT / "CITATION.cff").read_text()
    assert re.search(r'^version = "(.*)"$', pyproject, re.M)[1] == mf.__version__
    assert re.search(r"^version: (.*)$", citation, re.M)[1] == mf.__version__


def test_results_of_the_readme_are_what_the_claims_measure():
    from mixflow.paper.theory.claims import Lab, evaluate

    rows = re.findall(r"^\|[^|]+\|[^|]+\| *(−?[\d.]+) *\| *`mixflow claims ([\w-]+)` *\|$", TEXTS["README.md"], re.M)
    assert len(rows) >= 6
    for finding, (shown, name) in zip(evaluate(Lab(), [name for _, name in rows]), rows, strict=True):
        number = shown.replace("−", "-")
        digits = len(number.partition(".")[2])
        assert finding.holds, name
        assert abs(finding.measured - float(number)) <= 0.6 * 10**-digits, (
            f"{name}: {shown}, measured {finding.measured}"
        )


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_one_idea_and_one_picture(path):
    """Run by the build of the handbook (test_handbook_build.py); here their form."""
    text = path.read_text()
    assert len(text.splitlines()) < 30
    said = ast.get_docstring(ast.parse(text))
    assert re.match(r"[A-Z][^:\n]+: \S.*\.$", said), "the docstring is a title, a colon and a sentence"
    assert re.findall(r'savefig\("([^"]+)"\)', text) == [f"{path.stem}.svg"]


def test_the_map_is_the_plan():
    import sys

    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from _handbook.rooms import drawing, holds, imports, plan
    finally:
        sys.path.pop(0)
    assert plan() == PLAN
    assert imports("engines") == [room for room in PLAN if room in imports("engines")]
    assert "errors" in imports("tasks")
    assert all(holds(room) for room in PLAN if room != "__main__")
    assert 'class="arc up"' not in drawing()


def test_every_document_of_the_handbook_is_read_by_these_tests():
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")} <= set(blocks.PAGES)
    assert Path(ROOT / "CONTRIBUTING.md").exists()
