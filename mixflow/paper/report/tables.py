"""Series on disk: the same dataset as netCDF and as CSV, byte for byte the same for the same numbers."""

import csv
import io
import itertools

import numpy as np

from ...store import write_whole


def write_series(dataset, stem):
    """Write stem.nc and, for each leading dimension, a CSV table; returns the paths."""
    paths = [write_whole(f"{stem}.nc", bytes(dataset.to_netcdf(engine="h5netcdf")))]
    dims = list(dict.fromkeys(variable.dims[0] for variable in dataset.data_vars.values() if variable.dims))
    for dim in dims:
        suffix = "" if dim == dims[0] else f"-{dim}"
        paths.append(write_whole(f"{stem}{suffix}.csv", csv_table(dataset, dim).encode()))
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
