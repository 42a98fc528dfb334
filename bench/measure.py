"""What one run of a workload costs: fio's own numbers, CPU time and memory of
the servers from /proc, and how quiet the machine was meanwhile.

CPU time is what the kernel counts for the servers' processes: unlike a thread's, it is
kept when a connection's thread ends.
"""

import json
import os
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")
# What of the processors' time others may have had, for a run that counts.
STEAL_MAX = 0.01

# fio's names of what a workload does, its block size and its queue depth.
WORKLOADS = {
    "4k-randread-1": ("4 KiB random read, depth 1", "randread", 4096, 1),
    "4k-randread-32": ("4 KiB random read, depth 32", "randread", 4096, 32),
    "4k-randwrite-1": ("4 KiB random write, depth 1", "randwrite", 4096, 1),
    "4k-randwrite-32": ("4 KiB random write, depth 32", "randwrite", 4096, 32),
    "1m-read-4": ("1 MiB sequential read, depth 4", "read", 1 << 20, 4),
    "1m-write-4": ("1 MiB sequential write, depth 4", "write", 1 << 20, 4),
}


class Failed(Exception):
    pass


def cpu_seconds(pids):
    """What these processes together had of the processors, by the clocks from which
    /proc/PID/stat gets utime + stime, but not in its ticks of 10 ms."""
    # That is clock_getcpuclockid(3), which Python does not have.
    return sum(time.clock_gettime(~pid << 3 | 2) for pid in pids)


def peak_memory(pid):
    """Bytes: the largest resident set that the process ever had."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise Failed(f"/proc/{pid}/status has no VmHWM: is it a kernel thread?")


def machine_ticks():
    """(steal, user + nice + system, all) of all CPUs together."""
    with open("/proc/stat", encoding="ascii") as f:
        t = [int(x) for x in f.readline().split()[1:9]]
    return t[7], t[0] + t[1] + t[2], sum(t)


def warm(files):
    """Read them, so that all of them lie in the page cache."""
    for name in files:
        with open(name, "rb", buffering=0) as f:
            while f.read(1 << 22):
                pass


def fio(uri, workload, size, seconds):
    """One run of fio.  Returns its job's JSON and its own CPU seconds."""
    _, rw, block, depth = WORKLOADS[workload]
    command = [
        "fio", "--name=bench", "--ioengine=nbd", "--uri=" + uri,
        "--rw=" + rw, f"--bs={block}", f"--iodepth={depth}", f"--size={size}",
        "--norandommap", "--randrepeat=0", "--thread", "--numjobs=1",
        "--time_based", f"--runtime={seconds * 1000:.0f}ms", "--output-format=json"]
    # fio counts the flush at the end in the time that it took.
    if "write" in rw:
        command.append("--end_fsync=1")
    return run_fio(command)


def fill(uri, size):
    """Write the whole region once, so that no subject reads holes."""
    run_fio(["fio", "--name=fill", "--ioengine=nbd", "--uri=" + uri,
             "--rw=write", "--bs=1048576", "--iodepth=4", f"--size={size}",
             "--thread", "--end_fsync=1", "--output-format=json"])


def run_fio(command):
    before = os.times()
    p = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       check=False)
    after = os.times()
    # The nbd engine says that it is connected, on stdout, before the JSON.
    start = p.stdout.find("{")
    if p.returncode != 0 or start < 0:
        raise Failed(f"{' '.join(command)}: exit status {p.returncode}\n"
                     f"{p.stdout}{p.stderr}")
    job = json.loads(p.stdout[start:])["jobs"][0]
    if job["error"] != 0:
        raise Failed(f"{' '.join(command)}: error {job['error']}\n{p.stderr}")
    return job, (after.children_user + after.children_system
                 - before.children_user - before.children_system)


def once(subject, workload, size, seconds):
    """One measured run.  Returns a dictionary of plain numbers."""
    warm(subject.files)
    pids = subject.pids()
    steal, busy, total = machine_ticks()
    cpu = cpu_seconds(pids)
    began = time.monotonic()
    job, client_cpu = fio(subject.uri, workload, size, seconds)
    elapsed = time.monotonic() - began
    cpu = cpu_seconds(pids) - cpu
    steal, busy, total = (b - a for a, b in
                          zip((steal, busy, total), machine_ticks()))

    side = job["write" if "write" in workload else "read"]
    requests, size_done = side["total_ios"], side["io_bytes"]
    took = side["runtime"] / 1000
    if requests == 0 or took == 0:
        raise Failed(f"{subject.name}, {workload}: fio made no request in "
                     f"{seconds} s; give it more by --seconds")
    wait = side["clat_ns"]
    percentile = wait.get("percentile", {})
    return {
        "requests": requests,
        "bytes": size_done,
        "seconds": took,
        "requests_per_s": requests / took,
        "bytes_per_s": size_done / took,
        "latency_us_mean": wait["mean"] / 1000,
        "latency_us_p50": percentile.get("50.000000", 0) / 1000,
        "latency_us_p99": percentile.get("99.000000", 0) / 1000,
        "server_cpu_s": cpu,
        "client_cpu_s": client_cpu,
        "cpu_s_per_gib": cpu / size_done * (1 << 30),
        "cpu_s_per_100k_requests": cpu / requests * 100_000,
        "steal": steal / max(total, 1),
        # CPU seconds per second that went to neither us nor idling.
        "others": max(0, busy / TICKS - cpu - client_cpu) / elapsed,
    }
