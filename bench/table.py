"""The results as tables of Markdown, for people and for docs/PERFORMANCE.md."""

from measure import WORKLOADS


def markdown(head, rows):
    """Columns padded, so that it reads well unrendered too."""
    rows = [[str(c) for c in row] for row in rows]
    width = [max(len(r[i]) for r in [head] + rows) for i in range(len(head))]

    def line(cells):
        first, rest = cells[0].ljust(width[0]), cells[1:]
        return " | ".join(["| " + first] + [
            c.rjust(w) for c, w in zip(rest, width[1:])]) + " |"

    rule = "|-" + "-" * width[0] + "-|" + "|".join(
        "-" * (w + 1) + ":" for w in width[1:]) + "|"
    return "\n".join([line(head), rule] + [line(r) for r in rows])


def number(x):
    if x is None:
        return "-"
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}" if x else "0"


def rate(workload, m):
    """Small requests by number, large ones by size."""
    if workload.startswith("4k"):
        return m["requests_per_s"], "requests/s"
    return m["bytes_per_s"] / (1 << 20), "MiB/s"


def ratios(results, base):
    """Throughput of every subject as a multiple of `base`'s."""
    workloads = [w for w in WORKLOADS if w in results["workloads"]]
    rows = []
    for name, subject in results["subjects"].items():
        row = [name]
        for w in workloads:
            mine = subject["workloads"].get(w)
            yours = results["subjects"].get(base, {}).get(
                "workloads", {}).get(w)
            row.append("-" if not mine or not yours else
                       f"{rate(w, mine)[0] / rate(w, yours)[0]:.2f}")
        peak = subject["peak_memory_bytes"]
        row.append(f"{peak / (1 << 20):.0f}")
        rows.append(row)
    return markdown(["throughput / " + base] + workloads
                    + ["peak MiB"], rows)


def detail(results, workload):
    rows = []
    for name, subject in results["subjects"].items():
        m = subject["workloads"].get(workload)
        if not m:
            continue
        value, unit = rate(workload, m)
        quiet = [r for r in m["runs"] if not r["noisy"]]
        each = [rate(workload, r)[0] for r in quiet or m["runs"]]
        rows.append([name, number(value),
                     f"{number(min(each))} to {number(max(each))}",
                     number(m["latency_us_p50"]), number(m["latency_us_p99"]),
                     number(m["cpu_s_per_gib"]),
                     number(m["cpu_s_per_100k_requests"]),
                     f"{len(quiet)} of {len(m['runs'])}"])
    return f"{WORKLOADS[workload][0]}\n\n" + markdown(
        ["subject", unit, "least to most", "p50 us", "p99 us",
         "CPU s/GiB", "CPU s/100k requests", "quiet runs"], rows)


def report(results):
    parts = [f"{results['rounds']} rounds of {results['seconds']} s over "
             f"{results['size'] >> 20} MiB; medians of the quiet runs (of all, "
             f"where none was quiet); members' files on "
             f"{results['filesystem']}; {results['host']}"]
    base = "nbd-proxy"
    if base not in results["subjects"]:
        base = next(iter(results["subjects"]))
    parts.append(ratios(results, base))
    parts += [detail(results, w) for w in WORKLOADS
              if w in results["workloads"]]
    parts.append("\n".join(f"{n}: {s['title']}; copies of a byte: "
                           f"{s['copies']}"
                           for n, s in results["subjects"].items()))
    if results["discarded"]:
        parts.append(f"discarded runs (steal or others' load): "
                     f"{results['discarded']}")
    return "\n\n".join(parts) + "\n"
