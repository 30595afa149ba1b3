"""Jobs without a server: the line, frames made beside the run, errors that stay inside, a program that ends."""

import asyncio
import threading
from concurrent.futures import Future

import numpy as np
import pytest

from mixflow.errors import SpecError
from mixflow.playground import jobs
from mixflow.playground.frames import decode
from mixflow.playground.requests import Request


@pytest.fixture
def idle(monkeypatch):
    """Nobody works: everything stays in line until a test works it off itself."""
    monkeypatch.setattr(jobs, "WORKERS", 0)


class AtOnce:
    """An executor that works when it is asked to: every save goes into a frame of its own."""

    def __init__(self, _):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, work, *arguments):
        done = Future()
        try:
            done.set_result(work(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(jobs, "ThreadPoolExecutor", AtOnce)
    monkeypatch.setattr(jobs, "PAUSE", 0)
    monkeypatch.setattr(jobs, "SHARE", np.inf)


def frames_of(**controls):
    """(header, arrays) of every frame of a job, worked off here."""

    async def worked():
        job = jobs.Job(Request.of(controls), asyncio.get_running_loop())
        await asyncio.to_thread(job.work)
        return [decode(frame) for frame in job.frames]

    return asyncio.run(worked())


def test_a_line_that_is_too_long_is_refused_and_shared_runs_do_not_lengthen_it(idle, monkeypatch):
    monkeypatch.setattr(jobs, "WAITING", 3)

    async def crowd():
        line = jobs.Jobs(asyncio.get_running_loop())
        waiting = [line.ask(Request.of({"omega": omega})) for omega in (0.1, 0.2, 0.3)]
        assert line.ask(Request.of({"omega": 0.2})) is waiting[1]
        with pytest.raises(SpecError, match=r"3 runs are under way or waiting.*try again soon"):
            line.ask(Request.of({"omega": 0.4}))

    asyncio.run(crowd())


def test_a_quick_run_does_not_wait_for_a_crowd_of_long_ones(monkeypatch):
    """Long runs hold every worker there is for them until the quick one, which came last, is over."""
    release = threading.Event()

    def work(job):
        if job.cost > jobs.QUICK:
            release.wait(20)
        job.say(None, over=True)

    monkeypatch.setattr(jobs.Job, "work", work)

    async def crowd():
        line = jobs.Jobs(asyncio.get_running_loop())
        long = [
            line.ask(Request.of({"omega": 0.1 + 0.01 * i, "steps": 500_000, "classes": 4, "width": "64"}))
            for i in range(45)
        ]
        quick = line.ask(Request.of({"steps": 1000}))
        async with asyncio.timeout(10):
            assert [frame async for frame in quick.follow()] == []
        assert quick.over
        assert not any(job.over for job in long)
        release.set()
        line.close()

    asyncio.run(crowd())


def test_a_run_can_be_looked_at_as_soon_as_its_last_frame_is_out(idle):
    """Between the last frame and the worker's book-keeping a page may already ask for views."""

    async def quick_page():
        line = jobs.Jobs(asyncio.get_running_loop())
        job = line.ask(Request.of({"method": "construct"}))
        assert line.find(job.key) is None
        job.work()
        await asyncio.sleep(0)  # the frames reach the page, nobody has called _finished
        assert decode(job.frames[-1])[0]["kind"] == "done"
        assert line.find(job.key) is job

    asyncio.run(quick_page())


def test_every_save_is_streamed_once(at_once):
    _, *chunks, (done, rest) = frames_of(steps=4000)
    assert len(chunks) > 3
    assert [header["kind"] for header, _ in chunks] == ["chunk"] * len(chunks)
    assert not done["replace"]
    assert "time" not in rest  # nothing was left for the end
    assert np.concatenate([arrays["time"] for _, arrays in chunks]) == pytest.approx(np.linspace(0, 400, 1001))
    assert ["names" in header for header, _ in chunks] == [True] + [False] * (len(chunks) - 1)


def test_stages_replace_what_was_streamed(at_once):
    """A stage begins with the state the one before ended with: that time was streamed twice."""
    frames = frames_of(method="three", neurons=20, attention=20, converge=20)
    streamed = np.concatenate([arrays["time"] for header, arrays in frames if header["kind"] == "chunk"])
    done, arrays = frames[-1]
    assert len(np.unique(streamed)) < len(streamed)
    assert done["replace"]
    assert np.array_equal(arrays["time"], np.unique(streamed))


def test_a_frame_that_cannot_be_made_ends_the_job_with_a_message(monkeypatch):
    def broken(data):
        raise ZeroDivisionError("no such view")

    monkeypatch.setattr(jobs.views, "series", broken)
    header, _ = frames_of(steps=400)[-1]
    assert header["kind"] == "failed"
    assert header["message"] == "the engine failed with ZeroDivisionError: no such view"


def test_a_job_that_outlives_the_program_says_nothing():
    async def soon_over():
        return jobs.Job(Request.of({"method": "construct"}), asyncio.get_running_loop())

    job = asyncio.run(soon_over())  # the loop is closed
    job.work()
    assert job.frames == []
