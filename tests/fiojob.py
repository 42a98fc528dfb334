"""fio's nbd engine, as the tests use it: everything written is verified."""

import json
import subprocess
import threading


def command(uri, *, name="job", rw="randwrite", bs="4k", depth=8, size="32M",
            jobs=1, seed=1, verify=True, **options):
    """The command line of one fio job with `jobs` connections.

    Each connection has `size` bytes of its own, one after the other.  Options
    with _ for -; True gives a bare option.
    """
    words = ["fio", f"--name={name}", "--ioengine=nbd", f"--uri={uri}",
             f"--rw={rw}", f"--iodepth={depth}", f"--size={size}",
             f"--numjobs={jobs}", f"--randseed={seed}", "--allrandrepeat=1",
             "--thread", "--group_reporting", "--end_fsync=1",
             "--output-format=json"]
    words.append(f"--bsrange={bs}" if "-" in bs else f"--bs={bs}")
    if jobs > 1:
        words.append(f"--offset_increment={size}")
    if verify:
        # Two overlapping writes at once may land in either order, and then
        # fio could not say what to expect.
        words += ["--verify=crc32c", "--verify_fatal=1", "--do_verify=1",
                  "--serialize_overlap=1", "--verify_state_save=0"]
    for key, value in options.items():
        words.append(f"--{key}" if value is True else f"--{key}={value}")
    return words


class Fio:
    """A fio that runs in the background."""

    def __init__(self, uri, inside=(), **options):
        """inside: words before the command, such as `ip netns exec NAME`."""
        self.command = [*inside, *command(uri, **options)]
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)

    def running(self):
        return self.process.poll() is None

    def wait(self, timeout=120):
        """Its job's JSON.  Fails when fio saw an error or wrong data."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"fio hangs: {' '.join(self.command)}") \
                from None
        assert self.process.returncode == 0, \
            (f"{' '.join(self.command)}: exit status "
             f"{self.process.returncode}\n{out[-3000:]}{err[-3000:]}")
        # The engine says "connected" on stdout first.
        job = json.loads(out[out.index("{"):])["jobs"][0]
        assert job["error"] == 0, f"fio: error {job['error']}\n{err}"
        return job

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.running():
            self.kill()


def fio(uri, timeout=120, **options):
    with Fio(uri, **options) as f:
        return f.wait(timeout)


# Bursts of requests, and pauses between them: of a load that a test runs beside time-outs,
# which need the processors, too.
BURSTS = {"thinktime": 20_000, "thinktime_blocks": 16}


class Load(threading.Thread):
    """Repeats fio with verification, in bursts, until its end is requested."""

    def __init__(self, uri, seed, size="16M", **options):
        super().__init__()
        self.uri, self.seed, self.options = uri, seed, options
        self.size, self.jobs = size, 0
        self.done, self.failure = False, None

    def run(self):
        while not self.done and not self.failure:
            try:
                fio(self.uri, timeout=240, jobs=1, depth=8, size=self.size,
                    bs="4k-64k", rw="randwrite", verify_backlog=64,
                    seed=(self.seed + self.jobs) % 2 ** 31, **BURSTS, **self.options)
                self.jobs += 1
            except (AssertionError, ValueError) as e:
                self.failure = e

    def check(self):
        assert self.failure is None, self.failure

    def end(self):
        self.done = True
        self.join(300)
        assert not self.is_alive(), "fio hangs"
        self.check()
        assert self.jobs > 0
