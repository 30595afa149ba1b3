"""Weights that travel: the weights of a run at any saved time as safetensors, with a plain PyTorch module, as checkpoints.

Every file holds float64 arrays by name: `w` (head, d), `W_K` and `W_Q` (head, m, d), `bias` (head,) and `embedding` (feature, d),
the vector of each feature, and others where the network has options (`tensors`); a token is a coefficient times a feature's
vector, with its noise where the task has it. The network that reads them is

    F(X) = Σ_h ± ReLU(b_h + mean over queries of  w_hᵀ X softmax(Xᵀ W_Kᵀ W_Q x))        docs/mathematics.md §2

Each function says what it raises.

>>> import mixflow as mf
>>> sorted(mf.export.__all__)
['checkpoints', 'safetensors', 'tensors', 'torch_module']
"""

from __future__ import annotations

import json
import pathlib
from typing import TYPE_CHECKING

import numpy as np

from .checks import a_run, listed, real
from .errors import SpecError
from .networks.initial import embedding
from .provenance import versions
from .sealed import make_folder, write_whole

if TYPE_CHECKING:
    from .runs.run import Run
    from .types import Path, PathLike, Sequence, Weights

__all__ = ["checkpoints", "safetensors", "tensors", "torch_module"]

MODULE = '''"""A transformer trained with mixflow, in PyTorch: `Network()` reads the weights beside this file.

Tokens X have shape (batch, tokens, d); the vector of a feature is a row of `embedding`. `present` (batch, tokens) is True for
tokens that are not padding. The answer F (batch,) has the sign of the label.
"""

import pathlib

import torch
from safetensors.torch import load_file

FEATURES = {features!r}
SIGNS = {signs!r}


class Network(torch.nn.Module):
    def __init__(self, path=pathlib.Path(__file__).with_name("{weights}")):
        super().__init__()
        for name, x in load_file(path).items():
            trained = name in ("w", "W_K", "W_Q")
            self.register_parameter(name, torch.nn.Parameter(x, requires_grad=trained))

    def forward(self, X, present=None):
        present = torch.ones(X.shape[:2], dtype=torch.bool) if present is None else present
        K = torch.einsum("hmd,bkd->bhkm", self.W_K, X)
        Q = torch.einsum("hmd,bqd->bhqm", self.W_Q, X)
        scores = torch.einsum("bhkm,bhqm->bhkq", K, Q)
        scores = torch.where(present[:, None, :, None], scores, -torch.inf)
        read = torch.einsum("hd,bkd,bhkq->bhq", self.w, X, torch.softmax(scores, dim=2))
        asked = present.to(X.dtype)
        z = self.bias + torch.einsum("bhq,bq->bh", read, asked / asked.sum(1)[:, None])  # the mean over queries
        return (torch.tensor(SIGNS, dtype=z.dtype) * torch.relu(z)).sum(1)
'''


def tensors(run: Run, time: float | None = None) -> Weights:
    """The arrays of a run at a saved time by name, in float64.

    They are w (head, d), W_K and W_Q (head, m, d), bias (head,) and embedding (feature, d); without noise, where tokens have it.
    With options of the network:

    values=r          w (head, r, d), bias (head, r), and read_out (head, r)
    value_neurons=n   W_V (head, r, m, d) and value_neurons (head, r, n, m) instead of w
    attention         W_KQ (head, d, d) instead of W_K and W_Q where "direct"; no W_Q where "tied"
    shared_attention  (1, …) for the attention of all heads; shared_keys the same for W_K alone
    offset            offset ()

    run   a Run of finite width
    time  a saved time; the last one if not given

    Raises SpecError for infinite width, for flows, and for a time that was not saved, as `Run.weights` does.

    >>> import mixflow as mf
    >>> run = mf.train(mf.Mixture(2), mf.Transformer(width=8), mf.GradientDescent(steps=10))
    >>> {name: x.shape for name, x in mf.export.tensors(run).items()}
    {'w': (2, 4), 'W_K': (2, 8, 4), 'W_Q': (2, 8, 4), 'bias': (2,), 'embedding': (4, 4)}
    """
    network, task = a_run(run).transformer, _listed(run)
    if network.no_closure is not None:
        raise SpecError(
            f"a run of {type(network).__name__}: expected one of a Transformer; run.weights() gives what it has."
        )
    weights = {name: np.asarray(x, float) for name, x in run.weights(time).items()}
    bias = weights.get("bias", np.full((len(network.heads_for(task)), network.values), float(network.bias)))
    weights["bias"] = bias[:, 0] if network.values == 1 else bias
    vectors = task.directions if hasattr(task, "directions") else embedding(task, network.dimension).T
    return {**weights, "embedding": np.asarray(vectors, float)}


def _listed(run):
    """What names the features of a run's task: its tokens where these are vectors of their own, else its population."""
    return run.task.tokens if hasattr(run.task, "tokens") else run.task.population()


def safetensors(run: Run, path: PathLike, *, time: float | None = None) -> Path:
    """Write the arrays of `tensors` to one safetensors file, whole or not at all; returns the path.

    run   a Run of finite width
    path  of the file
    time  a saved time; the last one if not given

    The file's metadata says what they are: `spec` (JSON), `features`, `heads`, `time`, `mixflow`. Raises SpecError as `tensors`
    does and StoreError where the file cannot be written.
    """
    return write_whole(path, _packed(tensors(run, time), _described(run, time)))


def torch_module(run: Run, folder: PathLike, *, time: float | None = None) -> Path:
    """Write `network.py`, a PyTorch module of thirty lines, and `weights.safetensors` beside it; returns the folder.

    run     a Run of a Transformer of finite width
    folder  made if it is missing
    time    a saved time; the last one if not given

    Writing needs no PyTorch; `network.py` needs torch and safetensors. Raises SpecError as `tensors` does and for a network with
    other options than the paper's, StoreError where a file cannot be written.
    """
    arrays, about = tensors(run, time), _described(run, time)
    if (why := _no_module(run)) is not None:
        raise SpecError(f"{why}: network.py is written for the paper's network only; `safetensors` writes its weights.")
    folder = make_folder(folder)
    write_whole(folder / "weights.safetensors", _packed(arrays, about))
    write_whole(folder / "network.py", _module(run, "weights.safetensors"))
    return folder


def checkpoints(run: Run, folder: PathLike, *, times: Sequence[float] | None = None) -> Path:
    """Write a folder of weights over training, for tools that watch a network learn; returns its path.

    run     a Run of finite width by descent
    folder  made if it is missing
    times   saved times; all of them if not given

    `manifest.json` lists the files with step, time, loss and accuracy; `step_000000100.safetensors` are the weights;
    `network.py` is the module of `torch_module`, where the network is the paper's. Raises as `safetensors` does, before anything
    is written where the run has no weights.
    """
    data = a_run(run).dataset
    given = (
        data.time.values if times is None else listed("times", times, "a list of saved times", most=data.sizes["time"])
    )
    chosen = [real(f"times[{i}]", time) for i, time in enumerate(given)]
    if not chosen:
        raise SpecError("times is empty: expected some of the run's saved times; leave it out for all of them.")
    rows = []
    for time in chosen:
        content = _packed(tensors(run, time), _described(run, time))
        at = data.sel(time=time, method="nearest")
        name = f"step_{int(at.step):09d}.safetensors"
        made = make_folder(folder)
        write_whole(made / name, content)
        rows.append(
            {"file": name, "step": int(at.step), "time": time, "loss": float(at.loss), "accuracy": float(at.accuracy)}
        )
    manifest = {**_described(run, None, as_text=False), "checkpoints": rows}
    if _no_module(run) is None:
        write_whole(made / "network.py", _module(run, rows[-1]["file"]))
        manifest["module"] = "network.py"
    write_whole(made / "manifest.json", json.dumps(manifest, indent=1).encode())
    return made


def _described(run, time, as_text=True):
    about = {
        "spec": run.spec,
        "features": list(_listed(run).features),
        "heads": [str(head) for head in run.dataset["head"].values],
        "mixflow": versions()["mixflow"],
    }
    if as_text:
        about["time"] = float(run.dataset.time[-1]) if time is None else float(time)
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in about.items()}
    return about


def _packed(arrays, metadata):
    """The bytes of a safetensors file: the length of a JSON header, the header, the arrays one after the other."""
    header, content, at = {"__metadata__": metadata}, [], 0
    for name, x in arrays.items():
        raw = np.ascontiguousarray(x, "<f8").tobytes()
        header[name] = {"dtype": "F64", "shape": list(np.shape(x)), "data_offsets": [at, at + len(raw)]}
        content.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *content])


def _module(run, weights):
    heads = [str(head) for head in run.dataset["head"].values]
    signs = [1.0 if head.startswith("+") else -1.0 for head in heads]
    return MODULE.format(features=list(_listed(run).features), signs=signs, weights=pathlib.Path(weights).name).encode()


def _no_module(run):
    """Why MODULE is not the network of a run, or None."""
    if _listed(run).loss == "softmax":
        return "loss = 'softmax' has one head for each class"
    changed = run.transformer.altered
    return f"the network has {', '.join(changed)}" if changed else None
