#!/usr/bin/env python3
"""Tells in plain words what coppice-perf wrote to a file: demo_summary.py FILE RANK@TIME…, the kills that were ordered.

Exit code 1 when anything was lost, corrupt or duplicate; 3 (and no words) when not all victims died during the run.
"""
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        run = json.load(file)
    ordered = dict(kill.split("@") for kill in sys.argv[2:])
    died = {str(death["rank"]): death for death in run["died"]}
    if died.keys() != ordered.keys():
        return 3

    size = run["sizes"][0]
    print(f"  broadcasts  {size['iterations']} of {size['bytes']} bytes from rank {run['root']}; "
          f"{run['deliveries']} deliveries to survivors, every byte compared")
    for rank, time in ordered.items():
        death = died[rank]
        seen = death["us_after_last_sign"]
        print(f"  killed      rank {rank} at {time}; noticed by {death['noticed_by']} survivors, "
              f"{seen['min']:.0f} to {seen['max']:.0f} us after its last sign of life")
    done = size.get("done")
    if done:
        print(f"  latency     typical {done['t_typical']:.1f} us, 99 % below {done['percentile_99']:.1f} us, "
              f"longest {done['t_max']:.1f} us (deaths included)")
    print(f"  result      lost {run['lost']} corrupt {run['corrupt']} duplicate {run['duplicate']}")
    return 1 if run["lost"] or run["corrupt"] or run["duplicate"] else 0


if __name__ == "__main__":
    sys.exit(main())
