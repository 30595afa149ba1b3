"""Workers of a sweep: who may compute is asked before the first batch."""

import re
from types import SimpleNamespace

import pytest
from distributed import Client

import mixflow as mf
from mixflow.sweeping import cluster


@pytest.mark.parametrize(
    ("elsewhere", "says"),
    [
        ({"version": "0.0.9"}, "has mixflow 0.0.9, this client has"),
        ({"version": None}, "has no mixflow, this client has"),
        (
            {"module": "mixflow.nowhere"},
            "cannot import mixflow (ModuleNotFoundError: No module named 'mixflow.nowhere')",
        ),
        ({}, None),
    ],
)
def test_workers_that_cannot_compute_what_we_do_are_refused_before_the_first_batch(monkeypatch, elsewhere, says):
    """A worker that could not import its work was started again for ever. Here a real scheduler, its worker in a thread."""
    here = [cluster.metadata.version("mixflow")]

    def version(name):
        if here:
            return here.pop()  # asked by the client first
        if elsewhere["version"] is None:
            raise cluster.metadata.PackageNotFoundError(name)
        return elsewhere["version"]

    if "version" in elsewhere:
        monkeypatch.setattr(cluster, "metadata", SimpleNamespace(version=version, PackageNotFoundError=LookupError))
    if "module" in elsewhere:
        monkeypatch.setattr(cluster, "attempt", SimpleNamespace(__module__=elsewhere["module"]))
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None, set_as_default=False
    ) as client:
        if says is None:
            cluster.check_versions(client)
        else:
            with pytest.raises(mf.SpecError, match=re.escape(says)):
                cluster.check_versions(client)
