#!/usr/bin/env python3
"""Draws docs/figures/placement.svg: broadcasts on fat trees, wherever hosts stand (docs/topology.md).

  bench/placement_figure.py [BUILD_DIR [OUT_DIR]]    default: build, and docs/figures beside this folder

Everything is simulated: the same figures each time. Of dead leaves and pods the worst of a few is drawn; where live hosts
are left out, it says so. Needs matplotlib.
"""
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACEMENTS = ("ranked", "random", "leaf-by-leaf", "ours")
PORTS = (16, 20, 26, 32, 40, 50, 64)  # K^3 / 4 hosts: 1,024 to 65,536
FIGURES = (("coloring_latency", "colored after (steps)"), ("quiescence_latency", "quiet after (steps)"),
           ("up_link_messages", "messages over up-links"), ("g_max", "g_max"))


def dead_switches(ports):
    """Options of the runs of each column: nobody dead, one leaf, one pod."""
    leaves = ports * ports // 2
    return {"nobody dead": [[]],
            "one leaf dead": [["--dead-leaf", str(leaf)] for leaf in (1, 16, 17, leaves // 2, leaves // 2 + 1, leaves - 1)],
            "one pod dead": [["--dead-pod", str(ports * i // 8 + odd)] for i in (2, 5) for odd in (0, 1)]}


def run(simulator, ports, placement, dead):
    command = [simulator, "broadcast", "--network", f"fattree:{ports}", "--placement", placement, "--correction", "opportunistic:1",
               *dead, "--format", "json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build")
    out = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs" / "figures")
    worst = {}  # (column, placement, figure): by size
    for ports, placement in itertools.product(PORTS, PLACEMENTS):
        for column, cases in dead_switches(ports).items():
            runs = [run(build / "tools" / "coppice-sim", ports, placement, dead) for dead in cases]
            unreached = max(run["unreached"] for run in runs)
            if unreached > 0:
                print(f"{ports**3 // 4} hosts, {placement}, {column}: {unreached} live hosts are left out")
            for figure, _ in FIGURES:
                worst.setdefault((column, placement, figure), []).append(max(run[figure] for run in runs))
    sizes = [ports**3 // 4 for ports in PORTS]
    panels = []
    for (figure, label), column in itertools.product(FIGURES, dead_switches(PORTS[0])):
        curves = [{"label": placement, "style": "line", "x": sizes, "y": worst[column, placement, figure]} for placement in PLACEMENTS]
        is_wide = figure == "up_link_messages" or (column != "nobody dead" and figure != "g_max")
        panels.append({"title": "", "y_label": f"{label}, {column}", "log_y": is_wide, "from_zero": True, "curves": curves})
    plot = {"title": "Placements on fat trees of three levels: binomial tree, opportunistic:1, o = 1, latencies 1, 2, 3",
            "source": "simulated; the worst of six dead leaves, of four dead pods", "x_label": "hosts", "x_scale": "log2", "panels": panels}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "placement.plot.json"
        path.write_text(json.dumps(plot))
        subprocess.run([sys.executable, build / "tools" / "coppice-sim-plot.py", path], check=True)
        out.mkdir(parents=True, exist_ok=True)
        (out / "placement.svg").write_bytes((path.parent / "placement.svg").read_bytes())


if __name__ == "__main__":
    main()
