#!/usr/bin/env python3
"""Draws what coppice-sim reproduce measured.

  coppice-sim-plot.py NAME.plot.json...

Writes NAME.svg and NAME.png beside each. The file says everything: panels, axes and curves. Exit code 3: no matplotlib.
"""
import json
import os
import sys

try:
    import matplotlib
except ImportError:
    sys.exit(3)
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

# Okabe and Ito's palette, which the colour-blind can tell apart.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8C564B", "#000000", "#B8A800"]
MARKERS = "os^Dv<>PX*"


def stem(label):
    """What curves that differ only in their correction have in common: they share a color."""
    return label.split(", ")[0]


def place(values, scale, ticks):
    return [ticks.index(value) for value in values] if scale == "category" else values


def draw_curve(axes, plot, curve, number, ticks, shared, bars):
    x = place(curve["x"], plot["x_scale"], ticks)
    y = curve["y"]
    formula = curve.get("formula", False)
    color = "#333333" if formula and curve["style"] != "bars" else COLORS[shared.index(stem(curve["label"])) % len(COLORS)]
    marker = MARKERS[number % len(MARKERS)]
    look = {"color": color, "label": curve["label"]}
    style = curve["style"]
    if style == "bars":
        width = 0.8 / bars
        axes.bar([value - 0.4 + width * (number + 0.5) for value in x], y, width, **look)
    elif style == "points":
        axes.plot(x, y, linestyle="none", marker=marker, markersize=4.5, alpha=0.8, **look)
    elif formula:
        axes.plot(x, y, linestyle=["-", "--", ":"][number % 3], linewidth=1.3, **look)
    else:
        if style == "whiskers" and "low" in curve:
            down = [max(0, value - low) for value, low in zip(y, curve["low"])]
            up = [max(0, high - value) for value, high in zip(y, curve["high"])]
            axes.errorbar(x, y, yerr=[down, up], fmt="none", ecolor=color, elinewidth=1, capsize=3)
        if style == "ribbon" and curve.get("low", y) != curve.get("high", y):
            axes.fill_between(x, curve["low"], curve["high"], color=color, alpha=0.2, linewidth=0)
        axes.plot(x, y, linestyle="--" if curve.get("dashed") else "-", marker=marker, markersize=4, linewidth=1.4, **look)


def draw_axes(axes, plot, panel):
    curves = panel["curves"]
    ticks = sorted({value for curve in curves for value in curve["x"]})
    shared = []
    for curve in curves:
        if stem(curve["label"]) not in shared:
            shared.append(stem(curve["label"]))
    for number, curve in enumerate(curves):
        draw_curve(axes, plot, curve, number, ticks, shared, len(curves))
    if plot["x_scale"] == "category":
        axes.set_xticks(range(len(ticks)))
        axes.set_xticklabels([f"{value:g}" for value in ticks])
    elif plot["x_scale"] == "log2":
        axes.set_xscale("log", base=2)
    elif plot["x_scale"] == "log10":
        axes.set_xscale("log")
    if panel["log_y"]:
        axes.set_yscale("log")
    elif panel["from_zero"]:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(plot["x_label"])
    axes.set_ylabel(panel["y_label"])
    if panel["title"]:
        axes.set_title(panel["title"], fontsize=10)
    axes.grid(True, color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)


def draw(path):
    with open(path, encoding="utf-8") as file:
        plot = json.load(file)
    panels = plot["panels"]
    columns = min(len(panels), 3)
    rows = (len(panels) + columns - 1) // columns
    width = 8.4 if columns == 1 else 5.2 * columns
    figure, grid = plt.subplots(rows, columns, figsize=(width, 4.8 * rows if rows == 1 else 3.6 * rows), squeeze=False)
    for axes, panel in zip(grid.flat, panels):
        draw_axes(axes, plot, panel)
        lines = axes.get_legend_handles_labels()
        if len(lines[1]) > 8:
            axes.legend(*lines, fontsize=7.5, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        else:
            axes.legend(*lines, fontsize=7.5, frameon=False)
    figure.suptitle(f"{plot['title']}\n({plot['source']})", fontsize=11)
    figure.tight_layout()
    base = path[: -len(".plot.json")]
    # Without dates, and with ids that depend on nothing else, the same figures give the same file.
    for ending, options in ((".svg", {"metadata": {"Date": None}}), (".png", {"dpi": 110})):
        figure.savefig(base + ".part" + ending, **options)
        os.replace(base + ".part" + ending, base + ending)
    plt.close(figure)


def main():
    plt.rcParams["svg.hashsalt"] = "coppice"
    plt.rcParams["svg.fonttype"] = "none"  # text stays text: smaller, and can be searched
    plt.rcParams["font.family"] = "DejaVu Sans"
    for path in sys.argv[1:]:
        draw(path)


if __name__ == "__main__":
    main()
