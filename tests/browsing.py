"""Looking at the page in a browser: waiting for what it draws, reading it, moving its sliders."""

import contextlib
import io
import re
import time

import numpy as np

TIMED = ("loss", "probe", "neurons", "scores", "switchboard", "sectors")
QUICK = "#steps=4000"
SECONDS = 60  # the longest any wait may last; compiling on a busy machine takes most of it
TALL = {"width": 1300, "height": 2300}


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


def widths(page):
    """The lines of the picture in units of the thickest: head, key, query."""
    found = page.evaluate("[...document.querySelectorAll('#network .look')].map((l) => l.getAttribute('stroke-width'))")
    return np.array(found, float) / 13


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
    names = {"time": "time", "loss": "loss", "easy": "loss_easy", "hard": "loss_hard"}
    return {scripts: float(read(page, here)) for here, scripts in names.items() if read(page, here) != "–"}
