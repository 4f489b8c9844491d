#!/usr/bin/env python3
"""Draws which room of src/ includes which, and which part of the engine includes which (check_arrows.py says what a part is), as SVG.

Usage: draw_arrows.py SOURCE_ROOT FILE           writes the drawing
       draw_arrows.py --check SOURCE_ROOT FILE   tells whether FILE has the boxes and arrows that there are; exit code 1 if not

What includes stands above what is included. An arrow that follows from others is left out: of A to B, B to C and A to C it is the last.
Arrows that run back up are red, and all of them are drawn; the order in which they are fewest is found by trying.
"""

import pathlib
import re
import sys

import check_arrows

BOX_HEIGHT = 26
LAYER_HEIGHT = 74
GAP = 16
LETTER = 7.3
MARGIN = 24


def by_fewest_up(nodes, arrows):
    """The nodes in an order in which few includes run back up: from what includes to what is included."""
    order = []
    for knot in reversed(check_arrows.knots({node: arrows.get(node, {}) for node in nodes})):
        left, row = set(knot), []
        weight = {(a, b): len(arrows[a][b]) for a in knot for b in arrows.get(a, {}) if b in left}
        while left:
            # What gives most and takes least comes first (Eades, Lin and Smyth).
            surplus = {node: sum(w * ((a == node) - (b == node)) for (a, b), w in weight.items() if a in left and b in left)
                       for node in sorted(left)}
            node = max(surplus, key=surplus.get)
            row.append(node)
            left.remove(node)
        for _ in range(len(row)):
            for at in range(len(row)):
                node = row[at]
                rest = row[:at] + row[at + 1:]
                costs = []
                for place in range(len(row)):
                    tried = rest[:place] + [node] + rest[place:]
                    where = {one: i for i, one in enumerate(tried)}
                    costs.append(sum(w for (a, b), w in weight.items() if where[a] > where[b]))
                place = costs.index(min(costs))
                row = rest[:place] + [node] + rest[place:]
        order += row
    return order


class Graph:
    def __init__(self, arrows):
        self.nodes = sorted(set(arrows) | {to for leads in arrows.values() for to in leads})
        order = {node: at for at, node in enumerate(by_fewest_up(self.nodes, arrows))}
        pairs = [(a, b) for a in self.nodes for b in sorted(arrows.get(a, {}))]
        self.down = {node: [] for node in self.nodes}
        self.up = [(a, b) for a, b in pairs if order[a] > order[b]]
        for a, b in pairs:
            if order[a] < order[b]:
                self.down[a].append(b)
        self.arrows = len(pairs)
        self.reach = {}
        self.layer = {}
        for node in sorted(self.nodes, key=order.get, reverse=True):
            self.reach[node] = set(self.down[node]).union(*(self.reach[to] for to in self.down[node]))
            self.layer[node] = max((self.layer[to] + 1 for to in self.down[node]), default=0)
        self.shown = [(a, b) for a in self.nodes for b in self.down[a]
                      if not any(b in self.reach[other] for other in self.down[a])]


def laid_out(graph):
    """The rows from top to bottom, and for each shown arrow the chain of places that it passes."""
    top = max(graph.layer.values())
    rows = [[] for _ in range(top + 1)]
    for node in graph.nodes:
        rows[top - graph.layer[node]].append(node)
    chains = []
    for a, b in graph.shown:
        chain = [a]
        for layer in range(graph.layer[a] - 1, graph.layer[b], -1):
            chain.append((a, b, layer))
            rows[top - layer].append(chain[-1])
        chains.append(chain + [b])
    neighbours = {}
    for chain in chains:
        for one, other in zip(chain, chain[1:]):
            neighbours.setdefault(one, []).append(other)
            neighbours.setdefault(other, []).append(one)
    width = {place: LETTER * len(place) + 18 if isinstance(place, str) else 6 for row in rows for place in row}
    x = {}

    def pack(row):
        at = 0
        for place in row:
            x[place] = at + width[place] / 2
            at += width[place] + GAP

    for row in rows:
        pack(row)
    for sweep in range(24):
        for row in (rows if sweep % 2 == 0 else list(reversed(rows))):
            wish = {place: sum(x[n] for n in neighbours.get(place, [place])) / len(neighbours.get(place, [place])) for place in row}
            row.sort(key=lambda place: (wish[place], str(place)))
            # Each as near to its wish as the ones beside it let it be.
            at = None
            for place in row:
                x[place] = wish[place] if at is None else max(wish[place], at + width[place] / 2)
                at = x[place] + width[place] / 2 + GAP
            shift = sum(x[place] - wish[place] for place in row) / len(row)
            for place in row:
                x[place] -= shift
    left = min(x[place] - width[place] / 2 for row in rows for place in row)
    for place in x:
        x[place] += MARGIN - left
    y = {place: at * LAYER_HEIGHT for at, row in enumerate(rows) for place in row}
    return rows, chains, x, y, width


def panel(graph, title, top):
    rows, chains, x, y, width = laid_out(graph)
    above = f", {len(graph.up)} of them back up" if graph.up else ", none of them back up"
    lines = [f'<text x="{MARGIN}" y="{top}" class="title">{title}</text>',
             f'<text x="{MARGIN}" y="{top + 18}" class="small">{len(graph.nodes)} boxes, {graph.arrows} arrows{above}; '
             f'drawn are {len(graph.shown)} from which the others follow</text>']
    base = top + 44
    for chain in chains:
        points = [(x[place], base + y[place] + (BOX_HEIGHT if place == chain[0] else 0)) for place in chain]
        path = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
        for (x1, y1), (x2, y2) in zip(points, points[1:]):
            middle = (y1 + y2) / 2
            path += f" C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"
        lines.append(f'<path d="{path}" class="down" marker-end="url(#down)"><title>{chain[0]} includes {chain[-1]}</title></path>')
    for node in (node for row in rows for node in row if isinstance(node, str)):
        lines.append(f'<rect x="{x[node] - width[node] / 2:.0f}" y="{base + y[node]:.0f}" width="{width[node]:.0f}" height="{BOX_HEIGHT}" rx="3"/>')
        lines.append(f'<text x="{x[node]:.0f}" y="{base + y[node] + 17:.0f}" class="name">{node}</text>')
    for a, b in graph.up:
        y1, y2 = base + y[a], base + y[b] + BOX_HEIGHT
        bend = max(30, abs(y1 - y2) / 3)
        lines.append(f'<path d="M{x[a] + 8:.0f} {y1:.0f} C{x[a] + 8:.0f} {y1 - bend:.0f} {x[b] + 8:.0f} {y2 + bend:.0f} {x[b] + 8:.0f} {y2:.0f}" '
                     f'class="up" marker-end="url(#up)"><title>{a} includes {b}</title></path>')
    right = max(x[place] + width[place] / 2 for row in rows for place in row)
    return lines, right + MARGIN, base + (len(rows) - 1) * LAYER_HEIGHT + BOX_HEIGHT


def drawing(root):
    parts = check_arrows.part_arrows(root)
    rooms, engine = {}, {}
    for (room, part), leads in parts.items():
        rooms.setdefault(room, {})
        if room == "engine":
            engine.setdefault(part, {})
        for (other, to), places in leads.items():
            if other != room:
                rooms[room].setdefault(other, []).extend(places)
            elif room == "engine":
                engine[part].setdefault(to, []).extend(places)
    lines, width, bottom = panel(Graph(rooms), "The rooms of src/ and what each includes of others", 30)
    more, wider, bottom = panel(Graph(engine), "The parts of src/engine/ and what each includes of others", bottom + 66)
    width, height = max(width, wider, 640), bottom + MARGIN
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
            "<style>text { font: 12px monospace; fill: #1b1f24 } .title { font-weight: bold; font-size: 14px } .small { fill: #57606a }"
            " .name { text-anchor: middle } rect { fill: #f6f8fa; stroke: #57606a } path { fill: none }"
            " .down { stroke: #8c959f } .up { stroke: #cf222e; stroke-width: 1.4 }</style>",
            "<defs>"]
    for name, colour in (("down", "#8c959f"), ("up", "#cf222e")):
        head.append(f'<marker id="{name}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
                    f'<path d="M0 0 L8 4 L0 8 z" style="fill:{colour};stroke:none"/></marker>')
    head += ["</defs>", f'<path d="M0 0 H{width:.0f} V{height:.0f} H0 z" style="fill:#ffffff"/>']
    return "\n".join(head + lines + more + ["</svg>"]) + "\n"


def shown(svg):
    """Boxes, arrows and their numbers. Where each stands is made of sums that another version of Python may round otherwise."""
    return sorted(re.findall(r"<(?:text|title)\b[^>]*>([^<]*)<", svg))


def main(arguments):
    checks = arguments[:1] == ["--check"]
    arguments = arguments[1:] if checks else arguments
    if len(arguments) != 2 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    root, file = map(pathlib.Path, arguments)
    made = drawing(root)
    if not checks:
        file.write_text(made, encoding="utf-8")
        return 0
    if file.is_file() and shown(file.read_text(encoding="utf-8")) == shown(made):
        print(f"{file} shows what includes what")
        return 0
    print(f"{file} shows other includes than there are. If each new arrow is meant, draw it anew:\n"
          f"  python3 tests/arrows/draw_arrows.py . docs/figures/includes-after.svg")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
