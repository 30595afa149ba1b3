"""The page as it is first seen, from disk with the network off: story, network, phone, contrast, keyboard."""

import re

import numpy as np
import pytest
from browsing import QUICK, finished, painted, paths, read, scrub, until, widths

import mixflow as mf

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
            assert read(page, "right") == "50 %"
            assert widths(page) == pytest.approx(np.full(18, 1 / 3), abs=1e-3)
            assert float(re.search(r"has come to (\S+)\.$", told[2])[1]) == pytest.approx(np.log(2) / 2, abs=0.01)
        if step == 3:
            assert tally == "4 right · 4 undecided · 0 wrong"
            assert float(re.search(r"t.≈.(\d+(?:\.\d+)?)", told[3])[1]) == pytest.approx(12.2, abs=0.2)
        if step == 4:
            assert tally == "8 right · 0 undecided · 0 wrong"
            assert max(widths(page)) > 0.9
            assert "has learned who belongs to whom" in told[4]
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


def test_a_token_can_be_turned_and_the_picture_moves_to_the_new_sample(visit):
    page = visit(f"{QUICK}&sample=1")  # c1 +v1 −v2
    tile = "#network .button-g:not([data-probe])"
    said = "[...document.querySelectorAll('#network .tile')].slice(0, 6).map((t) => t.textContent).join(' ')"
    page.evaluate(
        """() => {
          const network = document.getElementById("network");
          const seen = (window.seen = []);
          network.firstChild.dataset.kept = "yes";
          new MutationObserver(() => seen.push(network.className)).observe(network, { attributes: true });
        }"""
    )
    page.locator(tile).nth(2).click()
    until(page, "window.seen.length === 2")
    assert page.evaluate("window.seen") == ["body morph", "body"]  # it moves for a moment
    assert page.evaluate(said) == "c1 c1 +v1 +v1 +v2 +v2"
    until(page, "location.hash.includes('sample=0')")
    page.locator(tile).nth(0).press("Enter")
    until(page, "location.hash.includes('sample=4')")
    painted(page)
    assert page.evaluate(said) == "c2 c2 +v1 +v1 +v2 +v2"
    assert page.locator(tile).nth(1).get_attribute("aria-label") == "+v1: click for the other sign"
    assert page.evaluate("document.querySelector('#network svg').dataset.kept") == "yes"  # one picture became the other


def test_a_dragged_neuron_changes_the_bias_and_trains_again(visit):
    page = visit(QUICK)
    key = finished(page)
    box = page.locator("#network [data-probe=z0] circle").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 3, y - 30, steps=3)
    page.mouse.up()
    finished(page, unlike=key)
    assert page.input_value("[aria-label='bias b, exact value']") == "0.8"
    assert "bias 0.80" in page.text_content("#network svg")
    assert "margin" in page.inner_text("#probe-title")  # a drag is no click
    run = mf.train(mf.Mixture(), mf.Transformer(bias=0.8), mf.GradientDescent(steps=4000, save_every=4000))
    assert float(read(page, "loss")) == pytest.approx(float(run.dataset.loss[-1]), rel=1e-5)


# looks ---------------------------------------------------------------------------------------------------------------


def test_phone_dark_and_still(visit):
    page = visit(QUICK, viewport={"width": 390, "height": 800}, color_scheme="dark", reduced_motion="reduce")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    order = ["#network", "#loss", "#samples", "#controls", "#neurons"]
    tops = [page.evaluate(f"document.querySelector('{one}').getBoundingClientRect().top") for one in order]
    assert tops == sorted(tops)
    page.click("#help")
    assert page.evaluate(
        "((g) => [g.scrollTop, g.scrollHeight > g.clientHeight])(document.getElementById('glossary'))"
    ) == [0, True]
    page.click("#help-close")
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
    focused = """((e) => [e.id || e.dataset.probe || e.getAttribute('class'),
        e === document.body || getComputedStyle(e).outlineStyle !== 'none'])(document.activeElement)"""
    for _ in range(120):
        page.keyboard.press("Tab")
        name, focus = page.evaluate(focused)
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
