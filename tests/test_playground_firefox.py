"""The exported page in Debian's Firefox, from disk and with nothing else to reach: the engine, the story, what is taken away."""

import json
import os

import numpy as np
import pytest
from firefox import find_firefox, firefox
from test_playground_engine import library, whole

from mixflow.playground.page import exported

# Trains in a worker of the page's own and resolves with the series of the loss and the margins.
TRAIN = """new Promise((resolve) => {
  const text = document.getElementById("worker").textContent;
  const worker = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  const parts = [];
  worker.onmessage = ({ data: { header, arrays } }) => {
    if (arrays.time) parts.push(arrays);
    const series = (name) => parts.flatMap((part) => Array.from(part[name].data));
    if (header.kind === "done") resolve({ time: series("time"), loss: series("loss"), margin: series("margin") });
  };
  worker.postMessage({ type: "run", slot: "main", id: 1, key: "own", controls: CONTROLS });
})"""
DRAWN = "document.documentElement.dataset.drawn"
LOSS = "[...document.querySelectorAll('#loss path.line')].map((line) => line.getAttribute('d')).join()"


@pytest.fixture(scope="module")
def fox(tmp_path_factory):
    path = os.environ.get("MIXFLOW_FIREFOX") and find_firefox()
    if not path:
        pytest.skip("Firefox is asked for by `make firefox`: on a busy machine it may take minutes to answer a command")
    folder = tmp_path_factory.mktemp("firefox")
    (folder / "page.html").write_text(exported(), encoding="utf-8")
    (folder / "profile").mkdir()
    with firefox(path, folder / "profile") as tab:
        tab.resize(1440, 2000)
        tab.address = (folder / "page.html").as_uri()
        yield tab


def visit(fox, fragment):
    """Open the page and wait for its finished run; returns the run's key."""
    fox.open("about:blank")
    fox.open(fox.address + fragment)
    return finished(fox)


def finished(fox, unlike="-"):
    settled = "document.querySelector('#status').dataset.state === 'done' && document.documentElement.dataset.painting === 'no'"
    fox.until(f"{settled} && ![undefined, 'partial', {unlike!r}].includes({DRAWN})")
    return fox.evaluate(DRAWN)


def click(fox, selector):
    fox.evaluate(f"document.querySelector({selector!r}).click()")


def number(fox, name):
    return float(fox.evaluate(f"document.getElementById('read-{name}').textContent"))


def test_the_engine_equals_the_library(fox):
    visit(fox, "#steps=100")
    fox.evaluate("console.log('heard')")
    fox.until("true")
    assert fox.said == ["heard"]  # so an empty list means something below
    fox.said.clear()
    asked = {"width": "16", "seed": 7, "task": "unequal", "batch": "4", "batch_seed": 3, "steps": 2000}
    mine = fox.evaluate(TRAIN.replace("CONTROLS", json.dumps(whole(asked))))
    data = library(**asked).dataset
    rows = [mine["time"].index(t) for t in data.time.values]
    assert np.array(mine["loss"])[rows] == pytest.approx(data.loss.values, abs=1e-10)
    margin = np.array(mine["margin"]).reshape(len(mine["time"]), -1)[rows]
    assert margin == pytest.approx(data.margin.values, abs=1e-10)


def test_story_play_and_the_network(fox):
    visit(fox, "#step=1&speed=4")
    click(fox, ".guess")
    assert "of 1." in fox.evaluate("document.querySelector('.puzzle').textContent")
    for step, title in enumerate(("Averaging fails", "Neurons learn", "Attention finds the pair", "It converges"), 2):
        click(fox, "#next")
        assert fox.evaluate("document.querySelector('#story h2').textContent") == f"{step}. {title}"
        finished(fox)
        click(fox, "#tell")
        assert len(fox.evaluate("document.querySelector('.told').textContent")) > 100
    fox.until("document.getElementById('play').textContent.includes('play')")
    widths = fox.evaluate(
        "[...document.querySelectorAll('#network .look')].map((l) => [l.getAttribute('stroke-width') / 13, l.dataset.weight])"
    )
    assert [w for w, _ in widths] == pytest.approx([float(share) for _, share in widths], abs=1e-4)
    assert max(w for w, _ in widths) > 0.9
    assert fox.said == []


def test_sliders_links_and_files(fox):
    key = visit(fox, "#steps=4000&bias=0.8")
    before = fox.evaluate(LOSS)
    fox.evaluate(
        "((s) => { s.value = 60; for (const e of ['input', 'change']) s.dispatchEvent(new Event(e)); })"
        "(document.getElementById('control-omega'))"
    )
    finished(fox, unlike=key)
    fox.until("location.hash.includes('omega=') && location.hash.includes('bias=0.8')")
    after, loss = fox.evaluate(LOSS), number(fox, "loss")
    assert after != before
    click(fox, "#python")
    assert "bias=0.8" in fox.evaluate("document.getElementById('code').value")
    click(fox, "#close")
    fox.evaluate(
        "void (URL.createObjectURL = ((make) => (blob) => make.call(URL, window.kept = blob))(URL.createObjectURL))"
    )
    fox.evaluate("void (HTMLAnchorElement.prototype.click = () => {})")  # nothing is written to anybody's disk
    click(fox, "#csv")
    last = fox.evaluate("window.kept.text()").splitlines()[-1].split(",")
    assert float(last[1]) == pytest.approx(loss, rel=1e-5)
    visit(fox, fox.evaluate("location.hash"))
    assert fox.evaluate(LOSS) == after
    assert fox.said == []


def test_phone_and_dark(fox):
    fox.resize(390, 800)
    visit(fox, "#steps=4000&theme=dark")
    assert fox.evaluate("document.documentElement.scrollWidth") <= 390
    assert fox.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 18, 20)"
    assert fox.said == []
