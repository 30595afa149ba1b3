"""The few series that stage detection reads, from a dataset, from sectors or from plain arrays."""

from dataclasses import dataclass, field

import numpy as np

from ..errors import SpecError
from ..tasks.floor import above_least


@dataclass(frozen=True)
class Trajectory:
    """One run as the detector needs it; the first axis of every array is time, further axes are free.

    time       (T,) increasing
    loss       (T,) mean loss, above the least possible one where that is not 0
    loss_easy  (T,) on the easy samples, NaN if there are none
    loss_hard  (T,) on the hard samples, NaN if there are none
    w          (T, ...) neurons, in any fixed coordinates
    A          (T, ...) attention scores: entries of W_Kᵀ W_Q, because "moved by one" is meant in units of a score
    z          (T, ...) pre-activations of every head and atom (or atom type)
    margin     (T, ...) y·F of every atom (or atom type), only shown as evidence
    least      what was taken off the losses, by name; empty where they are as they were
    """

    time: np.ndarray
    loss: np.ndarray
    loss_easy: np.ndarray
    loss_hard: np.ndarray
    w: np.ndarray
    A: np.ndarray
    z: np.ndarray
    margin: np.ndarray
    least: dict = field(default_factory=dict)

    def __post_init__(self):
        for name in (name for name in self.__dataclass_fields__ if name != "least"):
            value = np.asarray(getattr(self, name), float)
            if name in ("w", "A", "z", "margin"):
                value = value.reshape(len(value), -1) if value.ndim else value
            object.__setattr__(self, name, value)
            if value.ndim == 0 or len(value) != len(self.time):
                raise SpecError(f"{name} has shape {value.shape}: expected {len(self.time)} entries along time.")
        if not np.all(np.diff(self.time) > 0):
            raise SpecError("time does not increase: sort the saves and drop repeated ones.")

    @classmethod
    def from_dataset(cls, dataset):
        """One run's dataset; for many classes w and A are taken from their sectors."""
        if "run" in dataset["loss"].dims:
            raise SpecError("the dataset holds a batch of runs: choose one with dataset.isel(run=0).")
        dataset = dataset.isel(time=np.isfinite(dataset["loss"].values))  # a diverged member of a batch ends in NaN
        names = ["loss", "loss_easy", "loss_hard", "z", "margin"]
        sectors = "A" not in dataset and "A_sector" in dataset  # many classes: atoms and features are not listed
        names += ["w_sector", "A_sector"] if sectors else ["w", "A"]
        missing = [name for name in names if name not in dataset]
        if missing:
            raise SpecError(
                f"the dataset lacks {', '.join(missing)}: stages are read from {', '.join(names)} over time."
            )
        series = {name: dataset[name].transpose("time", ...).values for name in names}
        series["time"] = dataset["time"].values
        if "least_loss" in dataset.coords:  # equal samples with different labels: what is learned is above it
            least, weight, hard = (dataset[name].values for name in ("least_loss", "probability", "hard"))
            series = above_least(series, least, weight, hard.astype(bool))
        if not sectors:
            return cls(**series)
        A = dataset["A_sector"].transpose("time", "sector", ...)
        del series["A_sector"]
        return cls.from_sectors(
            classes=dataset.sizes["atom_type"] // 2,  # a type is a label and how many of the K − 1 other signs are +
            common=A.sel(sector="common").values,
            contrast=A.sel(sector="contrast").values,
            w=series.pop("w_sector"),
            **series,
        )

    @classmethod
    def from_sectors(cls, *, classes, common, contrast, **series):
        """A symmetric run: `common` and `contrast` are the sectors of A, each (T, ..., 2, 2); the rest as for arrays.

        A block x·I + y·J acts as x + K y on the common sector and as x on the contrast sector, so the scores themselves
        are x + y (own class) and y (another class).
        """
        common, contrast = np.asarray(common, float), np.asarray(contrast, float)
        other = (common - contrast) / classes
        return cls(A=np.stack([contrast + other, other], axis=1), **series)
