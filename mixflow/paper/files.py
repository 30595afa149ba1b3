"""Files of the study: written whole or not at all."""

import csv
import io
import itertools
import json
import os
import pathlib
import uuid

import numpy as np

import mixflow as mf


def write(path, content):
    """Write bytes by way of a file beside it that is renamed at the end; returns the path."""
    path = pathlib.Path(path)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise mf.StoreError(
            f"cannot write {path}: {error.strerror}; nothing was written, choose another place."
        ) from None
    return path


def make_folder(folder):
    """Make an output folder, or say in one sentence why not; returns its path."""
    folder = pathlib.Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise mf.StoreError(f"cannot make the folder {folder}: {error.strerror}; choose another with --out.") from None
    return folder


def dump(value):
    """JSON bytes, the same for the same value."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def write_series(dataset, stem):
    """Write stem.nc and, for each leading dimension, a CSV table; returns the paths."""
    paths = [write(f"{stem}.nc", bytes(dataset.to_netcdf(engine="h5netcdf")))]
    dims = list(dict.fromkeys(variable.dims[0] for variable in dataset.data_vars.values() if variable.dims))
    for dim in dims:
        suffix = "" if dim == dims[0] else f"-{dim}"
        paths.append(write(f"{stem}{suffix}.csv", csv_table(dataset, dim).encode()))
    return paths


def markdown(table):
    """A Table as Markdown, for documents."""
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', '∣') for cell in line)} |" for line in lines) + "\n"


def csv_table(dataset, dim):
    """Every variable that begins with `dim`: one row for each entry of it, one column for each entry of the other axes."""
    columns = {}
    for name, coordinate in dataset.coords.items():
        if coordinate.dims == (dim,):
            columns[name] = coordinate.values
    if dim not in columns:
        columns = {dim: np.arange(dataset.sizes[dim]), **columns}
    for name, variable in dataset.data_vars.items():
        if variable.dims and variable.dims[0] == dim:
            for place in itertools.product(*(range(size) for size in variable.shape[1:])):
                labels = [_label(dataset, d, i) for d, i in zip(variable.dims[1:], place)]
                columns[f"{name}[{','.join(labels)}]" if labels else name] = variable.values[(slice(None), *place)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*([_cell(x) for x in column] for column in columns.values())))
    return text.getvalue()


def _label(dataset, dim, index):
    return str(dataset[dim].values[index]) if dim in dataset.coords else str(index)


def _cell(x):
    return repr(float(x)) if isinstance(x, (float, np.floating)) else str(x)
