"""The page at work: curves, links, scripts and files, from disk with the network off, and with the server."""

import csv
import re

import numpy as np
import pytest
from browsing import QUICK, TIMED, executed, finished, painted, paths, picture, read, scrub, shown, slide, until
from pages import TOKEN, playground

import mixflow as mf
from mixflow.playground import views
from mixflow.playground.frames import decode
from mixflow.playground.page import exported
from mixflow.playground.presets import PRESETS

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


@pytest.mark.parametrize(
    "fragment",
    [
        "#steps=3000&width=16&seed=7&t=13.3&omega=0.4",
        "#steps=3000&task=unequal&prior=0.7&t=99&batch=4&batch_seed=5",
        "#method=three&neurons=20&attention=100&converge=30&t=120&loss=exponential&network=sum&learning_rate=0.05",
        "#method=construct&classes=3",
    ],
    ids=["finite", "unequal", "three", "construct"],
)
def test_copy_as_python_reproduces_the_numbers(visit, fragment):
    page = visit(fragment)
    numbers = shown(page)
    assert len(numbers) == (3 if "construct" in fragment else 4)
    assert executed(page).items() >= numbers.items()


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
    assert float(read(page, "right").rstrip(" %")) < 99
    assert "undecided" in page.inner_text("#samples .tally")
    assert " 0 undecided" not in page.inner_text("#samples .tally")


# with the server -----------------------------------------------------------------------------------------------------


def test_the_server_adds_what_needs_python(visit, served):
    page = visit("#method=flow&until=200&omega=1&compare=gd", address=served)
    assert "by the server" in page.inner_text("#status")
    assert not page.is_visible("#alert")  # the server was not there yet when it was asked, and not gone either
    assert page.locator("#switchboard path.mark").count() > 0
    until(page, "document.querySelectorAll('#loss path.line').length === 4")
    flow = shown(page)
    assert executed(page).items() >= flow.items()
    key = finished(page)
    page.check("#control-proof")
    until(page, "document.querySelector('#status').textContent.includes('proving')")
    key = finished(page, unlike=key)
    assert page.inner_text("#theorem").startswith("Theorem (computer-assisted).")
    assert "The loss is above 0.1 until t = 168.0653" in page.inner_text("#theorem")
    page.click("#python")
    assert "print(mf.prove(run.task, run.transformer).statement())" in page.input_value("#code")
    page.click("#close")
    assert page.evaluate("location.search") == ""  # the token does not stay in the address
    page.select_option("#control-method", "gd")
    finished(page, unlike=key)
    assert "in this page" in page.inner_text("#status")
    assert not page.is_visible("#theorem")
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


# a run inside a document ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["file", "cell"])
def test_a_view_shows_the_run_that_was_computed(browser, tmp_path, where):
    run = mf.train(mf.Mixture(), mf.Transformer(width=20, bias=0.4, seed=3), mf.GradientFlow(until=300.0))
    seen = mf.view(run, shown=("network", "loss"))
    path = seen.save(tmp_path / "view.html")
    if where == "cell":
        path.write_text(f"<body>{seen._repr_html_()}</body>")
    page = browser.new_page(offline=True)
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(path.as_uri())
    inside = page if where == "file" else page.frames[1]
    finished(inside)
    cards = "[...document.querySelectorAll('.card')].filter((c) => c.offsetParent).map((c) => c.className)"
    assert inside.evaluate(cards) == ["card card-network", "card card-loss"]
    scrub(inside, 1000)
    assert float(read(inside, "loss")) == pytest.approx(float(run.dataset.loss[-1]), rel=1e-5)
    assert "bias 0.40" in inside.inner_html("#network")
    assert inside.locator("#loss .band").count() == len([stage for stage in run.stages if stage.found])
    assert said == []
    page.close()


def test_a_view_of_another_start_has_what_the_page_draws_from():
    """The page draws neurons from w, A and b, as the paper's network has them."""
    run = mf.train(mf.Mixture(), mf.Transformer(width=4, value_scale=0.3), mf.GradientDescent(steps=4, save_every=2))
    drawn = views.series(run.dataset)
    z = mf.measure.preactivation(run.task, drawn["w"], drawn["A"], run.transformer.bias)
    np.testing.assert_allclose(z, drawn["z"], rtol=0, atol=1e-13)
    assert "mixflow view of" in repr(mf.view(run))


def test_a_view_of_what_the_page_cannot_draw_says_so():
    for task, network in (
        (mf.Mixture(), mf.Transformer(width=4, values=2, value_scale=0.1)),
        (mf.variants.regression(2, values=(-1.0, 1.0)), mf.Transformer(width=4)),
    ):
        run = mf.train(task, network, mf.GradientDescent(steps=4))
        with pytest.raises(mf.SpecError, match=r"use run\.plot\(\)"):
            mf.view(run)
    run = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=4))
    with pytest.raises(mf.SpecError, match="expected any of network"):
        mf.view(run, shown=("matrix",))


def test_the_exported_file_is_closed():
    """Its policy lets nothing in: no host, no inline script but its own."""
    text = exported()
    policy = re.search(r'content-security-policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
