"""The page in a real browser, from disk with the network off and from the server: the same page, two sources."""

import contextlib
import csv
import io
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from pages import FLAGS, TOKEN, playground, require_browser

import mixflow as mf
from mixflow.playground.frames import decode
from mixflow.playground.page import exported
from mixflow.playground.presets import PRESETS

TIMED = ("loss", "probe", "neurons", "scores", "switchboard", "sectors")
QUICK = "#steps=4000"
SECONDS = 60  # the longest any wait may last; compiling on a busy machine takes most of it
TALL = {"width": 1300, "height": 2300}


@pytest.fixture(scope="module")
def browser():
    path = require_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The address of the exported page on disk."""
    path = tmp_path_factory.mktemp("page") / "playground.html"
    words = [sys.executable, "-m", "mixflow", "playground", "--export", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_size < 400_000
    return path.as_uri()


@pytest.fixture(scope="module")
def served():
    require_browser()
    with playground() as (found, _):
        yield found


@pytest.fixture
def visit(browser, alone):
    """visit(fragment) opens the page and waits for its run; at the end: no console message, no request to another host."""
    contexts, trouble = [], []

    def open_page(fragment="", *, address=None, settle=True, **options):
        options = {"viewport": TALL, "offline": address is None, **options}
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(SECONDS * 1000)
        ours = (address or alone, "data:", "blob:")
        page.on("console", lambda m: trouble.append(m.text))
        page.on("pageerror", lambda e: trouble.append(str(e)))
        page.on("request", lambda r: None if r.url.startswith(ours) else trouble.append(r.url))
        page.goto(f"{address}?token={TOKEN}{fragment}" if address else alone + fragment)
        if settle:
            finished(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


def until(page, expression):
    """Wait for a JavaScript expression. (Playwright's own wait evaluates text in the page, which the page's policy forbids.)"""
    end = time.monotonic() + SECONDS
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"{expression} after {SECONDS} s: {page.inner_text('#status')!r}"
        page.wait_for_timeout(30)


def finished(page, unlike="-"):
    """Wait until a finished run (other than `unlike`) is drawn; returns its key."""
    drawn = "document.documentElement.dataset.drawn"
    state = "document.querySelector('#status').dataset.state"
    until(page, f"{state} === 'done' && ![undefined, 'partial', {unlike!r}].includes({drawn})")
    painted(page)
    return page.evaluate(drawn)


def painted(page):
    until(page, "document.documentElement.dataset.painting === 'no'")


def paths(page, view):
    """{name: path} of the curves of a chart."""
    lines = f"[...document.querySelectorAll('#{view} path.line')].map((p) => [p.dataset.name, p.getAttribute('d')])"
    return dict(page.evaluate(lines))


def read(page, name):
    return page.inner_text(f"#read-{name}")


def scrub(page, place):
    page.evaluate(f"const s = document.getElementById('scrub'); s.value = {place}; s.dispatchEvent(new Event('input'))")
    painted(page)


def picture(page):
    """What every view shows at the cursor."""
    painted(page)
    drawn = {
        view: page.evaluate(f"document.querySelector('#{view} .cursor').getAttribute('transform')") for view in TIMED
    }
    for view in ("matrix", "attention"):
        drawn[view] = page.evaluate(
            f"[...document.querySelectorAll('#{view} .map-value')].map((x) => x.textContent).join(' ')"
        )
    points = "[...document.querySelectorAll('#geometry .point')].map((p) => p.getAttribute('transform')).join()"
    drawn["geometry"] = page.evaluate(points)
    drawn["network"] = page.evaluate("document.querySelector('#network').innerHTML")
    drawn["numbers"] = page.inner_text("#readout")
    return drawn


def slide(page, control, tick):
    """Move a slider as a hand does: the value changes, then the hand lets go."""
    move = f"s.value = {tick}; for (const e of ['input', 'change']) s.dispatchEvent(new Event(e))"
    page.evaluate(f"(s) => {{ {move} }}", page.query_selector(f"#{control}"))


# first sight and story -----------------------------------------------------------------------------------------------


def test_first_sight_is_the_puzzle_with_a_run_in_motion(visit):
    page = visit(settle=False)
    until(page, "document.querySelectorAll('#network .look').length === 18")
    assert page.evaluate("performance.now()") < 5000  # half a second on a quiet machine
    until(page, "document.querySelector('.puzzle .guess') !== null")
    assert "Can you find the rule" in page.inner_text("#story")
    assert page.inner_text("#play").endswith("pause")
    first = float(read(page, "time"))
    until(page, f"Number(document.getElementById('read-time').textContent) > {first}")
    page.locator(".guess").first.click()
    assert re.search(r"(Right|No), it is [+−]\. You: [01] of 1\.", page.inner_text(".puzzle"))
    page.click("#another")
    page.locator(".guess").nth(1).click()
    assert "of 2." in page.inner_text(".puzzle")
    page.click("#tell")
    assert "with c1 the answer is the sign of v1" in page.inner_text(".told")


def test_every_step_of_the_story_shows_what_it_says(visit):
    page = visit("#step=1&speed=4")
    key = page.evaluate("document.documentElement.dataset.drawn")
    told = {}
    for step, title in enumerate(("Averaging fails", "Neurons learn", "Attention finds the pair", "It converges"), 2):
        page.click("#next")
        assert page.inner_text("#story h2") == f"{step}. {title}"
        key = finished(page, unlike=key) if step < 4 else key
        until(page, "document.getElementById('play').textContent.includes('play')")  # it has played what it plays
        painted(page)
        page.click("#tell")
        told[step] = page.inner_text(".told")
        tally, margin = page.inner_text("#samples .tally"), page.text_content("#network svg")
        if step == 2:  # attention frozen: equal lines, the hard samples undecided and not counted as right
            assert tally == "4 right · 4 undecided · 0 wrong"
            assert read(page, "accuracy") == "0.75"
            assert widths(page) == pytest.approx(np.full(18, 1 / 3), abs=1e-3)
            assert float(re.search(r"stops at (\S+):", told[2])[1]) == pytest.approx(np.log(2) / 2, abs=0.01)
        if step == 3:
            assert tally == "4 right · 4 undecided · 0 wrong"
            assert float(re.search(r"t ≈ (\d+(?:\.\d+)?)", told[3])[1]) == pytest.approx(12.2, abs=0.2)
        if step == 4:
            assert tally == "8 right · 0 undecided · 0 wrong"
            assert max(widths(page)) > 0.9
            assert "has learned which identifier belongs to which signal" in told[4]
        if step == 5:
            assert float(read(page, "loss")) < 0.004
            assert "right" in margin
    page.click("#story-more")
    finished(page, unlike=key)
    assert "outvoted" in page.inner_text(".told")
    assert page.locator("#samples .sample").count() == 24
    page.click("#next")
    assert not page.is_visible("#story")
    assert page.is_visible("#story-open")


# the network ---------------------------------------------------------------------------------------------------------


def widths(page):
    """The lines of the picture in units of the thickest: head, key, query."""
    found = page.evaluate("[...document.querySelectorAll('#network .look')].map((l) => l.getAttribute('stroke-width'))")
    return np.array(found, float) / 13


@pytest.mark.parametrize("sample", [1, 6])
def test_lines_are_as_thick_as_the_attention(visit, sample):
    page = visit(f"#steps=4000&t=204.8&sample={sample}")
    run = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=2048, save_every=2048))
    assert read(page, "time") == "204.8"
    A, task = run.dataset.A.values[-1], run.task.population()
    tokens = [(task.features.index(name), sign) for name, sign in task.atoms[sample]]
    scores = np.array([[[s * t * A[h, f, g] for g, t in tokens] for f, s in tokens] for h in (0, 1)])
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert widths(page) == pytest.approx(shares.ravel(), abs=1e-4)
    z = run.dataset.z.values[-1, :, sample]
    said = page.evaluate("[...document.querySelectorAll('#network .neuron-z')].map((x) => x.textContent)")
    assert [float(x.replace("−", "-")) for x in said] == pytest.approx(z, abs=0.006)
    assert f"margin {run.dataset.margin.values[-1, sample]:.2f}" in page.text_content("#network svg")


def test_clicking_shows_the_number_over_time(visit):
    page = visit(QUICK)
    seen = set()
    for probe, words in (("k0", "looks"), ("z1", "z of head −"), ("w0", "head + makes"), ("m0", "margin")):
        page.locator(f"#network [data-probe={probe}]").first.click()
        painted(page)
        assert words in page.inner_text("#probe-title")
        seen.add(tuple(paths(page, "probe").values()))
    assert len(seen) == 4
    page.locator("#network [data-probe=z0]").first.focus()
    page.keyboard.press("Enter")
    painted(page)
    assert "z of head +" in page.inner_text("#probe-title")
    page.locator("#samples .sample").nth(5).click()
    until(page, "location.hash.includes('sample=5')")
    assert page.evaluate("document.querySelector('#network .tile').textContent") == "c2"


# curves, links, files ------------------------------------------------------------------------------------------------


def test_every_view_is_drawn_and_explains_itself(visit):
    page = visit("#t=500")
    assert read(page, "stage") == "convergence"
    assert page.evaluate("document.querySelectorAll('#loss .band').length") == 3
    assert set(paths(page, "loss")) == {"all samples", "easy samples", "hard samples"}
    for view in TIMED:
        assert page.locator(f"#{view} path.line, #{view} path.row").count() > 0, view
    for view in ("network", "samples", "loss", "geometry", "switchboard"):
        about = page.locator(f"section.card:has(#{view}) .about")
        assert not about.first.is_visible()
        page.locator(f"section.card:has(#{view}) .why").click()
        box, card = about.first.bounding_box(), page.locator(f"section.card:has(#{view})").first.bounding_box()
        assert box["width"] > 0.6 * min(card["width"], 600)
    page.click("#help")
    assert "Says which signal carries the label" in page.inner_text("#glossary")
    page.click("#help-close")
    assert page.locator("#preset option").count() == len(PRESETS)  # less the one that needs Python, and "choose one"


def test_a_slider_changes_the_curves(visit):
    page = visit(QUICK)
    before, key = paths(page, "loss"), finished(page)
    page.locator("#control-omega").focus()
    for _ in range(10):  # with the keyboard, as everyone can
        page.keyboard.press("ArrowRight")
    finished(page, unlike=key)
    assert paths(page, "loss") != before
    until(page, "location.hash.includes('omega=')")
    assert float(page.input_value("[aria-label='initial scale ω, exact value']")) > 0.3


def test_play_and_scrub_move_every_view_together(visit):
    page = visit(QUICK + "&speed=0.5")
    end = picture(page)
    scrub(page, 700)
    middle = picture(page)
    assert [view for view in end if end[view] == middle[view]] == []
    began = float(read(page, "time"))
    page.click("#play")
    until(page, f"Number(document.getElementById('read-time').textContent) > {1.5 * began}")
    page.click("#play")
    later = picture(page)
    assert [view for view in middle if middle[view] == later[view]] == []

    def index():
        return int(page.evaluate("document.documentElement.dataset.index"))

    at = index()
    page.click("#forward")
    assert index() == at + 1
    page.click("#back")
    page.click("#back")
    assert index() == at - 1


def test_a_shared_link_restores_the_view(visit):
    first = visit("#steps=4000&omega=0.4&t=150&axis=linear&head=minus&sample=2&probe=z1&theme=dark&compare=three")
    until(first, "document.querySelectorAll('#loss path.line').length === 4")
    second = visit(first.evaluate("location.hash"))
    until(second, "document.querySelectorAll('#loss path.line').length === 4")
    assert second.evaluate("location.hash") == first.evaluate("location.hash")
    assert picture(first) == picture(second)
    assert paths(first, "neurons") == paths(second, "neurons")
    assert second.evaluate("document.documentElement.dataset.theme") == "dark"


def drag(page, view, share_from, share_to):
    """Drag the mouse over a chart between two places of its time axis."""
    box = page.locator(f"#{view} clipPath rect").evaluate(
        "(r) => { const at = r.ownerSVGElement.getBoundingClientRect(), n = (k) => Number(r.getAttribute(k));"
        "return [at.left + n('x'), at.top + n('y') + n('height') / 2, n('width')]; }"
    )
    left, y, length = box
    page.mouse.move(left + share_from * length, y)
    page.mouse.down()
    page.mouse.move(left + share_to * length, y + 2, steps=4)
    page.mouse.up()


def test_zoom_and_hidden_curves_are_shared_by_every_chart_and_by_the_link(visit):
    first = visit(QUICK)
    whole = paths(first, "scores")
    drag(first, "loss", 0.3, 0.7)
    until(first, "location.hash.includes('zoom=')")
    low, high = map(float, re.search(r"zoom=([\d.]+)%2C([\d.]+)", first.evaluate("location.hash")).groups())
    assert np.log10([low, high]) == pytest.approx(-1 + np.array([0.3, 0.7]) * np.log10(4000), abs=0.05)
    first.locator("#loss .entry", has_text="easy samples").click()
    until(first, "location.hash.includes('off=')")
    painted(first)
    assert set(paths(first, "loss")) == {"all samples", "hard samples"}
    assert paths(first, "scores") != whole
    second = visit(first.evaluate("location.hash"))
    assert {view: paths(second, view) for view in TIMED} == {view: paths(first, view) for view in TIMED}
    second.locator("#neurons svg.chart").dblclick()
    until(second, "!location.hash.includes('zoom')")
    painted(second)
    assert paths(second, "scores") == whole


def executed(page):
    """What the script behind "copy as Python" prints: {name: number}."""
    page.click("#python")
    script = page.input_value("#code")
    page.click("#close")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(script, "copied", "exec"), {})
    return {name: float(number) for name, number in re.findall(r"^(\w+) = (\S+)", said.getvalue(), re.MULTILINE)}


def shown(page):
    """The read-out under the names the scripts use."""
    names = {"time": "time", "loss": "loss", "easy": "loss_easy", "hard": "loss_hard", "accuracy": "accuracy"}
    return {scripts: float(read(page, here)) for here, scripts in names.items() if read(page, here) != "–"}


@pytest.mark.parametrize(
    "fragment",
    [
        "#steps=3000&width=16&seed=7&t=13.3&omega=0.4",
        "#steps=3000&task=unequal&prior=0.7&t=99",
        "#method=three&neurons=20&attention=100&converge=30&t=120",
        "#method=construct&classes=3",
    ],
    ids=["finite", "unequal", "three", "construct"],
)
def test_copy_as_python_reproduces_the_numbers(visit, fragment):
    page = visit(fragment)
    numbers = shown(page)
    printed = executed(page)
    assert len(numbers) == 4 if "construct" in fragment else 5
    assert {name: printed[name] for name in numbers} == numbers


def test_files(visit, tmp_path):
    page = visit(QUICK)
    for view in ("loss", "matrix", "network"):
        for kind, begins in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
            with page.expect_download() as waiting:
                page.locator(f"section.card:has(#{view}) .tools button", has_text=kind).click()
            path = tmp_path / f"{view}.{kind}"
            waiting.value.save_as(path)
            assert path.read_bytes().lstrip().startswith(begins), (view, kind)
    with page.expect_download() as waiting:
        page.click("#csv")
    waiting.value.save_as(tmp_path / "run.csv")
    with open(tmp_path / "run.csv") as file:
        rows = list(csv.DictReader(file))
    data = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=4000)).dataset.isel(time=-1)
    assert float(rows[-1]["loss"]) == pytest.approx(float(data.loss), rel=1e-10)
    assert float(rows[-1]["A[+,c1,v1]"]) == pytest.approx(float(data.A.sel(head="+", key="c1", query="v1")), rel=1e-10)
    assert not page.is_visible("#netcdf")  # needs Python


def test_a_written_network_has_no_time(visit):
    page = visit(QUICK)
    key = finished(page)
    page.select_option("#preset", label="The constructed transformer")
    key = finished(page, unlike=key)
    assert page.is_disabled("#play")
    assert page.is_disabled("#scrub")
    assert "not trained" in page.inner_text("#status")
    assert page.inner_text("#samples .tally") == "24 right · 0 undecided · 0 wrong"
    assert "margin 3.00" in page.text_content("#network svg")
    page.select_option("#control-method", "gd")
    finished(page, unlike=key)
    assert page.is_enabled("#play")


def test_fifty_mixtures_have_plain_axes(visit):
    page = visit("#classes=50&steps=2000")
    assert page.locator("#sectors path.line").count() == 8
    assert "cannot be listed" in page.inner_text("section.card:has(#geometry)")
    ticks = page.evaluate("[...document.querySelectorAll('#scores .tick, #sectors .tick')].map((t) => t.textContent)")
    assert not [tick for tick in ticks if "e" in tick and "e-" in tick]


def test_a_bad_address_is_explained_and_the_page_works(visit):
    page = visit("#steps=4000&omega=banana&classes=1e99&colour=red&width=7&zoom=9,3&off=<b>&task=none&method=flow")
    said = page.inner_text("#alert")
    assert "banana" in said
    assert "expected a number from 0.01 to 3" in said
    assert "colour" in said
    assert "two times such as 12,300" in said
    assert "one of plain, unequal, coherent, noisy, longer" in said
    assert "one of gd, three, construct" in said  # the flow needs Python and is not offered
    page.select_option("#control-width", "64")
    slide(page, "control-classes", 200)
    until(page, "document.querySelector('#status').dataset.state === 'refused'")
    assert "infinite width" in page.inner_text("#alert")
    slide(page, "control-classes", 0)
    finished(page)
    assert not page.is_visible("#alert")


@pytest.mark.parametrize("preset", [preset for preset in PRESETS if preset["name"].startswith("What breaks")], ids=str)
def test_what_breaks_breaks(visit, preset):
    words = "&".join(f"{name}={value}" for name, value in preset["state"].items())
    page = visit(f"#{words}&preset={preset['id']}")
    assert page.inner_text("#preset-shows") == preset["shows"]
    assert float(read(page, "accuracy")) < 0.99
    assert "undecided" in page.inner_text("#samples .tally")
    assert " 0 undecided" not in page.inner_text("#samples .tally")


# looks ---------------------------------------------------------------------------------------------------------------


def test_phone_dark_and_still(visit):
    page = visit(QUICK, viewport={"width": 390, "height": 800}, color_scheme="dark", reduced_motion="reduce")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    order = ["#network", "#loss", "#samples", "#controls", "#neurons"]
    tops = [page.evaluate(f"document.querySelector('{one}').getBoundingClientRect().top") for one in order]
    assert tops == sorted(tops)
    clipped = """[...document.querySelectorAll('#network text')].filter((t) => {
        const b = t.getBBox(), v = t.ownerSVGElement.viewBox.baseVal;
        return b.x < 0 || b.x + b.width > v.width || b.y + b.height > v.height; }).map((t) => t.textContent)"""
    assert page.evaluate(clipped) == []
    # count how often the cursor moves in a second of playing: it must jump, not glide
    moves = page.evaluate(
        """async () => {
          let moves = 0;
          const seen = new MutationObserver(() => { moves += 1; });
          seen.observe(document.documentElement, { attributes: true, attributeFilter: ["data-index"] });
          document.getElementById("play").click();
          await new Promise((done) => setTimeout(done, 1200));
          document.getElementById("play").click();
          return moves;
        }"""
    )
    assert moves <= 8


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast_of_every_line_and_text(visit, theme):
    page = visit(f"{QUICK}&theme={theme}")
    names = [
        "all",
        "easy",
        "hard",
        "own",
        "other",
        "query",
        "rest",
        "c",
        "v",
        "d",
        "plus",
        "minus",
        "ink",
        "text",
        "accent",
    ]
    tones = page.evaluate(
        "(names) => names.map((n) => getComputedStyle(document.documentElement).getPropertyValue('--' + n))",
        [*names, "paper", "ground"],
    )
    *lines, paper, ground = map(luminance, tones)
    for name, line in zip(names, lines):
        for under in (paper, ground):
            assert (max(line, under) + 0.05) / (min(line, under) + 0.05) >= 4.5, name


def luminance(colour):
    """Relative luminance of #rrggbb (WCAG 2)."""
    parts = [int(colour.strip()[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_everything_is_named_and_reachable(visit):
    page = visit("#steps=4000&step=2")
    unnamed = page.evaluate(
        """[...document.querySelectorAll('button, select, input, a, textarea, [role=button]')]
        .filter((e) => e.getClientRects().length)
        .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length))
        .map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    reached = set()
    outlined = (
        "document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== 'none'"
    )
    for _ in range(110):
        page.keyboard.press("Tab")
        name, focus = page.evaluate(
            f"[document.activeElement.id || document.activeElement.dataset.probe || document.activeElement.className, {outlined}]"
        )
        reached.add(name)
        assert focus, name
    assert {"play", "scrub", "preset", "python", "control-omega", "k0", "z1", "next"} <= reached
    assert not page.is_visible("#control-seed")  # infinite width has none


def test_a_figure_in_another_page_shows_only_its_views_and_moves(visit):
    page = visit("?figure=network,loss#steps=4000", viewport={"width": 700, "height": 800})
    seen = page.evaluate(
        "[...document.querySelectorAll('.card')].filter((c) => c.offsetParent).map((c) => c.className)"
    )
    assert seen == ["card card-network", "card card-loss"]
    assert not page.is_visible("#probe")
    assert not page.is_visible("header")
    first = float(read(page, "time"))
    until(page, f"Number(document.getElementById('read-time').textContent) > {first}")
    scrub(page, 900)
    assert float(read(page, "time")) > 100


# with the server -----------------------------------------------------------------------------------------------------


def test_the_server_adds_what_needs_python(visit, served):
    page = visit("#method=flow&until=300&compare=gd", address=served)
    assert "by the server" in page.inner_text("#status")
    assert page.locator("#switchboard path.mark").count() > 0
    until(page, "document.querySelectorAll('#loss path.line').length === 4")
    flow = {**shown(page)}
    assert executed(page) == flow
    assert page.evaluate("location.search") == ""  # the token does not stay in the address
    key = finished(page)
    page.select_option("#control-method", "gd")
    finished(page, unlike=key)
    assert "in this page" in page.inner_text("#status")
    with page.expect_download() as waiting:  # the page's own run as a file: the server trains it too
        page.click("#netcdf")
    run = mf.load(waiting.value.path())
    assert f"{float(run.dataset.loss[-1]):.6g}" == read(page, "loss")


def test_waiting_for_the_compiler_is_explained(visit, served):
    page = visit(QUICK, address=served)

    def hold(socket):
        server = socket.connect_to_server()
        server.on_message(lambda frame: None if decode(frame)[0]["kind"] in ("chunk", "done") else socket.send(frame))

    page.route_web_socket("**/socket", hold)
    page.reload()
    finished(page)
    page.select_option("#control-method", "flow")
    until(page, "document.querySelector('#status').textContent.includes('compiling')")


def test_the_page_lives_without_its_server_and_finds_it_again(browser):
    with playground() as (address, process):
        page = browser.new_page()
        page.goto(f"{address}?token={TOKEN}#method=flow&until=100")
        key = finished(page)
        process.terminate()
        process.wait(10)
        slide(page, "control-omega", 100)
        until(page, "document.querySelector('#status').dataset.state === 'gone'")
        assert "start it again" in page.inner_text("#alert")
        page.select_option("#control-method", "gd")
        key = finished(page, unlike=key)
        page.select_option("#control-method", "flow")
        until(page, "document.querySelector('#status').dataset.state === 'gone'")
        with playground(int(address.rsplit(":", 1)[1].rstrip("/"))):
            finished(page, unlike=key)
        page.close()


def test_the_exported_file_is_closed():
    """Its policy lets nothing in: no host, no inline script but its own."""
    text = exported()
    policy = re.search(r'content-security-policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
