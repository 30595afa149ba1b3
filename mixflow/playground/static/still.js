// A network that was never trained has no curves: each curve's only value becomes a bar, each row of the switchboard a cell.

export function still({ traces, layout }) {
  const bars = traces.map((trace) => {
    if (trace.type === "heatmap") return { ...trace, x: [""] };
    const { name, y, xaxis, yaxis, line } = trace;
    return { type: "bar", x: [name], y: [y[0]], name, xaxis, yaxis, marker: { color: line.color }, width: 0.6, hovertemplate: "%{y:.5g}<extra></extra>" };
  });
  const { gridcolor, anchor } = layout.xaxis;
  const linear = (axis) => ({ ...axis, type: "linear", dtick: undefined, rangemode: "tozero" });
  return {
    traces: bars,
    layout: {
      ...layout, shapes: [], annotations: [], showlegend: false, hovermode: "closest",
      xaxis: { type: "category", gridcolor, anchor, fixedrange: true, automargin: true },
      ...(layout.yaxis && { yaxis: traces[0].type === "heatmap" ? layout.yaxis : linear(layout.yaxis) }),
      ...(layout.yaxis2 && { yaxis2: linear(layout.yaxis2) }),
    },
  };
}
