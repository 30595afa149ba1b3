"""The readers' questions as pictures: key and query, an early and a late end of stage 1, empty positions."""

import numpy as np

import mixflow as mf


def plot_questions(scores, staged, positions):
    """A Figure of three panels.

    scores     the four attention scores of a run over time, as `curves` gives them
    staged     {label: (time since stage 2 began, contrast score)}
    positions  (L, learning times)
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(mf.plot.RC):
        figure = Figure(figsize=(10.2, 3.4))
        roles, late, longer = figure.subplots(1, 3)
        looks = (
            ("A_c_own", "own", "-", "key, own signal"),
            ("A_c_other", "other", "--", "key, other"),
            ("A_query_own", "query", "-.", "query, own signal"),
            ("A_query_other", "rest", ":", "query, other"),
        )
        for name, colour, dash, label in looks:
            roles.plot(scores.time, scores[name], dash, color=mf.plot.COLOURS[colour], label=label)
        mf.plot.time_axis(roles, scores.time.values)
        roles.set(title="the identifier as …", ylabel="score, head +")
        roles.legend()
        for (label, (time, score)), (colour, _), dash in zip(staged.items(), mf.plot.SERIES, ("-", "--"), strict=False):
            late.semilogy(time, np.maximum(np.abs(score), 1e-18), dash, color=colour, label=label)
        late.set(title="stage 2 after stage 1 ended …", xlabel="time since", ylabel="|contrast score|")
        late.legend()
        longer.loglog(*positions, "o", color=mf.plot.SERIES[0][0])
        L, T = (np.asarray(x, float) for x in positions)
        longer.loglog(L, T[0] * (L / L[0]) ** 3, "--", color="#767676", lw=1, label="L³")
        longer.set_xticks(L, [f"{x:g}" for x in L])
        longer.xaxis.minorticks_off()
        longer.set(title="empty positions", xlabel="tokens L", ylabel="learning time")
        longer.legend()
        return figure
