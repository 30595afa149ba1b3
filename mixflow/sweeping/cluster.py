"""Where batches run: processes of this machine, or a Dask cluster at an address. No scheduler of our own."""

import asyncio
import contextlib
import json
import logging
import pathlib
import pkgutil
import warnings
from dataclasses import dataclass
from importlib import metadata

from ..checks import whole, word
from ..errors import MixflowError, SpecError
from ..provenance import cores
from .work import attempt

REACH_SECONDS = 5  # how long to knock at a scheduler before saying that it does not answer
MOST_WORKERS = 1024  # processes of one machine
START_SECONDS = 60  # how long an existing scheduler may be without workers


@dataclass(frozen=True)
class Place:
    """Where to run.

    workers    local processes; one for each core if not given
    scheduler  address of an existing Dask scheduler, e.g. tcp://host:8786 or tls://host:8786, or the .json file it wrote with
               --scheduler-file; overrides workers
    tls_ca, tls_cert, tls_key   files for tls:// addresses
    dashboard  port of Dask's own page on the loopback interface (needs bokeh), off if not given
    """

    workers: int | None = None
    scheduler: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    dashboard: int | None = None

    def __post_init__(self):
        if self.workers is not None:
            whole("workers", self.workers, most=MOST_WORKERS, fix="leave it out for one for each core")
        if self.dashboard is not None:
            whole("dashboard", self.dashboard, most=65535, fix="the number of a free port")
        if self.scheduler is not None:
            word("scheduler", self.scheduler)

    @property
    def cores(self):
        """Local processes to start."""
        return self.workers or cores()


@contextlib.contextmanager
def connected(place):
    """A Dask client for the place; local processes are stopped at the end, a cluster at an address is left alone."""
    import dask
    from distributed import Client

    quiet = {
        "distributed.scheduler.allowed-failures": 3,  # worker deaths before a batch's attempt counts as failed
        "distributed.worker.daemon": True,
        "distributed.comm.timeouts.connect": "5s",
    }
    with dask.config.set(quiet), contextlib.ExitStack() as stack:
        # Dask reports every lost worker and scheduler; what matters of that stands in the manifest, or in one sentence.
        for name in [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "distributed"]:
            logger = logging.getLogger(name)
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL + 1)
        if place.scheduler:
            client = _remote(place)
        else:
            cluster = stack.enter_context(_started(place))
            client = Client(cluster, set_as_default=False)
        stack.callback(_close, client)
        check_versions(client)
        yield client


def _started(place, attempts=3):
    """The local processes; a worker that is killed while it starts takes the whole start with it, so start again."""
    for left in reversed(range(attempts)):
        try:
            return _local(place)
        except (RuntimeError, OSError) as error:
            if not left:
                why = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise MixflowError(
                    f"the local processes do not start ({why}); free some memory or ask for fewer with --workers."
                ) from None


def _local(place):
    """Processes of this machine that do not hear Ctrl-C: the client alone decides what an interruption means.

    A process starts with the signal mask of the thread that starts it, and that thread with the mask of ours. The tracker of
    multiprocessing is started first because it would unblock the signal again.
    """
    import signal
    from multiprocessing import resource_tracker

    from distributed import LocalCluster

    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        # A port of its own even without the dashboard: Dask always opens its health page, and 8787 may be somebody else's.
        return LocalCluster(
            n_workers=place.cores,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            memory_limit=0,
            dashboard_address=f"127.0.0.1:{place.dashboard or 0}",
            silence_logs=logging.CRITICAL,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _remote(place):
    """A client of the scheduler at an address, after it has answered: Dask's own client would go on knocking for ever."""
    from distributed import Client
    from distributed import TimeoutError as DaskTimeout

    safety = _security(place)
    _knock(place, safety)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dask warns about differing versions of its own parts; ours are checked
        client = Client(**_where(place), timeout=REACH_SECONDS, security=safety, set_as_default=False)
    try:
        client.wait_for_workers(1, timeout=START_SECONDS)
    except (DaskTimeout, TimeoutError):
        _close(client)
        raise SpecError(
            f"the scheduler at {place.scheduler} has no workers after {START_SECONDS} s: start some."
        ) from None
    return client


def _where(place):
    by_file = place.scheduler.endswith(".json")
    return {"scheduler_file": place.scheduler} if by_file else {"address": place.scheduler}


def _security(place):
    """Dask's Security for the place, or None where no certificates are given."""
    given = {"tls_ca_file": place.tls_ca, "tls_client_cert": place.tls_cert, "tls_client_key": place.tls_key}
    if not any(given.values()):
        return None
    from distributed.security import Security

    return Security(require_encryption=True, **given)


def _knock(place, safety):
    """Ask the scheduler who it is; a SpecError with Dask's own words if no scheduler answers."""
    from concurrent.futures import ThreadPoolExecutor

    async def ask():
        from distributed.core import rpc

        address = place.scheduler
        if "scheduler_file" in _where(place):
            address = json.loads(pathlib.Path(address).read_text())["address"]
        arguments = safety.get_connection_args("client") if safety else {}
        async with rpc(address, timeout=REACH_SECONDS, connection_args=arguments) as scheduler:
            answer = await asyncio.wait_for(scheduler.identity(), REACH_SECONDS)
        return answer["workers"]

    try:
        with ThreadPoolExecutor(1) as pool:  # whoever calls us may have a loop of events in this thread already
            pool.submit(asyncio.run, ask()).result()
    except Exception as error:  # Dask raises almost anything at an answer that is not Dask's
        why = (str(error).strip().splitlines() or [f"no answer in {REACH_SECONDS} s"])[0]
        raise SpecError(
            f"cannot reach a scheduler at {place.scheduler!r} ({type(error).__name__}: {why}): start one, or correct --scheduler "
            "and its --tls-ca, --tls-cert and --tls-key."
        ) from None


def _close(client):
    with contextlib.suppress(Exception):  # the scheduler may be gone already; what is finished is on the disk
        client.close(timeout=5)


def check_versions(client):
    """Refuse workers with another mixflow: their numbers would not be ours.

    The standard library's own function is sent, because a worker without mixflow could not even unpickle one of ours.
    """
    here = metadata.version("mixflow")
    answers = client.run(metadata.version, "mixflow", on_error="return")
    for worker, there in answers.items():
        if isinstance(there, BaseException):
            raise SpecError(
                f"the worker {worker} has no mixflow, this client has {here}: install mixflow {here} there."
            )
        if there != here:
            raise SpecError(
                f"the worker {worker} has mixflow {there}, this client has {here}: install the same version on both."
            )
    # A worker that cannot import what it is sent would be started again and again, and the sweep would wait for ever.
    for worker, found in client.run(pkgutil.resolve_name, f"{attempt.__module__}:attempt", on_error="return").items():
        if isinstance(found, BaseException):
            raise SpecError(
                f"the worker {worker} cannot import mixflow ({type(found).__name__}: {found}): install it anew there."
            )
