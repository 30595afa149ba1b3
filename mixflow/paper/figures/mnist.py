"""Training on images: held-out accuracy of every scheme, and what the simultaneous run does inside."""

import numpy as np

import mixflow as mf

SCHEMES = {  # name -> (colour, dash)
    "simultaneous": (mf.plot.COLOURS["own"], "-"),
    "three-stage": (mf.plot.COLOURS["query"], "--"),
    "centred": (mf.plot.COLOURS["other"], "-."),
}


def plot_mnist(runs):
    """A Figure of four panels: held-out accuracy on hard samples of all runs; loss, neurons, attention of the first one.

    runs  {"simultaneous": [Run, …], "three-stage": [Run, …], "centred": [Run, …]}, one for each seed
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(mf.plot.RC):
        figure = Figure(figsize=(9.6, 6.8))
        (accuracy, loss), (neurons, attention) = figure.subplots(2, 2)
        for name, members in runs.items():
            _accuracies(accuracy, name, members)
        accuracy.axhline(0.5, color="#bbbbbb", lw=0.6, zorder=0)
        accuracy.set_ylim(0.4, 1.02)
        accuracy.set_xlabel("time  (learning rate × step)")
        accuracy.set_ylabel("accuracy on test images, hard samples")
        accuracy.legend(loc="center right")
        run = runs["simultaneous"][0]
        data = run.dataset
        mf.plot.draw_losses(loss, data)
        loss.set_ylabel("training loss, simultaneous")
        mf.plot.draw_lines(neurons, data, mf.plot.neuron_lines(data), "neuron alignment, head +")
        mf.plot.draw_lines(attention, data, mf.plot.attention_lines(data), "attention score, head +")
        low, high = attention.get_ylim()
        attention.set_ylim(low, high + 0.45 * (high - low))  # room for the legend above the curves
        for panel in (loss, neurons, attention):
            panel.set_xscale("log")
            panel.set_xlim(data.time[1], data.time[-1])
            panel.set_xlabel("time  (learning rate × step)")
            mf.plot.shade(panel, run.stages, label=panel is loss)
        return figure


def _accuracies(axes, name, members):
    """Every seed thin, their mean thick."""
    colour, dash = SCHEMES[name]
    curves = [(run.dataset.time.values, run.dataset.accuracy_hard_test.values) for run in members]
    for time, curve in curves:
        axes.plot(time, curve, color=colour, lw=0.6, alpha=0.5)
    mean = np.mean([curve for _, curve in curves], axis=0)
    axes.plot(
        curves[0][0], mean, dash, color=colour, label=f"{name}, {len(curves)} seed{'s' if len(curves) > 1 else ''}"
    )


def plot_images(share, worst):
    """A Figure: the share of wrong hard samples over the number of training images, and the images with the most misses.

    share  {images: share wrong};  worst  [(misses, image)], the worst first
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(mf.plot.RC):
        figure = Figure(figsize=(9.6, 3.0))
        grid = figure.add_gridspec(2, 8)
        curve = figure.add_subplot(grid[:, :4])
        curve.plot(list(share), [100 * x for x in share.values()], "o-", color=SCHEMES["simultaneous"][0])
        curve.set(xscale="log", ylim=(0, None), xlabel="training images of each digit", ylabel="wrong hard samples, %")
        curve.set_xticks(list(share), [str(n) for n in share])
        curve.minorticks_off()
        for i, (misses, image) in enumerate(worst):
            panel = figure.add_subplot(grid[i // 4, 4 + i % 4])
            panel.imshow(image, cmap="gray_r")
            panel.set_title(f"{misses} misses", fontsize=8)
            panel.set_axis_off()
        return figure
