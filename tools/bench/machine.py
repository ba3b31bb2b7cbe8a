"""The host: a network namespace of our own, CPU clocks of processes, what stands in the header."""

import ctypes
import fcntl
import functools
import os
import pathlib
import platform
import re
import resource
import socket
import struct
import time

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
CPUCLOCK_SCHED = 2
TICK = os.sysconf("SC_CLK_TCK")
CONGESTION = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")
QUIET_SHARE = 0.08  # of one core, by others
QUIET_WAIT_S = 10


def own_network():
    """A network namespace with a loopback that is up; returns an errno, or 0. In this very process: what an ordinary user starts in a user
    namespace has lost the capabilities for it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWNET | CLONE_NEWUSER) != 0:
        return ctypes.get_errno()
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP | IFF_RUNNING))
    except OSError as error:
        return error.errno
    return 0


def enter_namespace():
    """A network namespace with reno: pacing of bbr on loopback would be what is measured. Returns a note."""
    child = os.fork()  # tries it: there is no way back from a namespace whose loopback stays down
    if child == 0:
        os._exit(own_network())
    error = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or own_network()
    if error:
        return f"host namespace (a new one: {os.strerror(error)})"
    try:
        CONGESTION.write_text("reno\n")
    except OSError as error:
        return f"a namespace of its own, reno refused: {error}"
    return "a namespace of its own"


class Group:
    """A control group with so much memory, page cache included; version 1 or 2, whichever is here. `procs`: who writes its id there
    is in it. OSError where we may not."""

    def __init__(self, name, limit):
        lines = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
        root = pathlib.Path("/sys/fs/cgroup")
        v1 = next((path for _, kinds, path in lines if "memory" in kinds.split(",")), None)
        own = root / "memory" / v1.strip("/") if v1 is not None else root / lines[-1][2].strip("/")
        self.path = own / f"forebay-{name}-{os.getpid()}"
        if v1 is None:
            (own / "cgroup.subtree_control").write_text("+memory")
        self.path.mkdir()
        self.procs = self.path / "cgroup.procs"
        (self.path / ("memory.limit_in_bytes" if v1 is not None else "memory.max")).write_text(str(limit))

    def stop(self, *_):
        for _ in range(50):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.1)


def raise_limits():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def favour(pid):
    """Before all other sessions of this machine: every thread there is, and what it starts. For hosts that are not quiet:
    who waits a slice of others at each wake-up measures them, not itself."""
    pathlib.Path(f"/proc/{pid}/autogroup").write_text("-12")
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        os.sched_setscheduler(int(task.name), os.SCHED_RR, os.sched_param(1))


def cpu_s(pids):
    """User and system time of these processes, all threads, to the nanosecond: /proc/PID/stat has it in ticks, a percent of a run of a second."""
    total = 0
    for pid in pids:
        try:
            total += time.clock_gettime_ns(~pid << 3 | CPUCLOCK_SCHED)  # as clock_getcpuclockid() makes it
        except OSError:  # a process that just ended
            continue
    return total / 1e9


def busy_s():
    """What all cores did since the start, idling and waiting left out."""
    fields = [int(f) for f in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICK


def throttled(favoured):
    """Whether favour() has a limit, which a process that spins runs into: then tails are the kernel's."""
    return favoured and int(pathlib.Path("/proc/sys/kernel/sched_rt_runtime_us").read_text()) >= 0


def stolen_s():
    """What the host took of all cores for other guests."""
    return int(pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]) / TICK


def wait_quiet():
    """Begins in a quiet moment, or after QUIET_WAIT_S all the same; what others took is in each sample."""
    end = time.monotonic() + QUIET_WAIT_S
    while time.monotonic() < end:
        before = busy_s()
        time.sleep(0.3)
        if (busy_s() - before) / 0.3 < QUIET_SHARE:
            return True
    return False


def children(pid):
    out = []
    for file in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        out += [int(c) for c in file.read_text().split()]
    return out


def read_or_nothing(path):
    """Of a process that may end at any time."""
    try:
        return path.read_text()
    except OSError:
        return ""


def busiest_thread(pids):
    """The one of these processes that has used most CPU: its id."""
    tasks = [task for pid in pids for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return max(tasks, key=lambda task: int((read_or_nothing(task / "schedstat") or "0").split()[0])).name


@functools.cache
def kernel_thread(name):
    """Its id, in a list; an empty one where the machine's are not to be seen."""
    return [p.parent.name for p in pathlib.Path("/proc").glob("[0-9]*/comm") if read_or_nothing(p).strip() == name]


def cpu_model():
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found.group(1) if found else platform.machine()


def by_maker(other, amd):
    """A goal that is another one on the CPUs of a maker: where system calls are dearer, who makes more of them loses more."""
    return amd if re.search(r"vendor_id\s*: AuthenticAMD", pathlib.Path("/proc/cpuinfo").read_text()) else other


def filesystem(path):
    """'ext4 on /dev/vda', of the mount that holds `path`."""
    path = pathlib.Path(path).resolve()
    best = ("", "?", "?")
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        device, mount, kind = line.split()[:3]
        if path.is_relative_to(mount) and len(mount) >= len(best[0]):
            best = (mount, kind, device)
    return f"{best[1]} on {best[2]}"


def rss_anon_kib(pid):
    found = re.search(r"RssAnon:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1))


def header(namespace, work_dir, cores, versions):
    memory = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1))
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cpu": f"{cpu_model()}, {os.cpu_count()} cores; server on {cores[0]}, client on {cores[1]}",
        "memory": f"{memory / 1048576:.1f} GiB",
        "kernel": platform.release(),
        "network": f"loopback, {namespace}, {CONGESTION.read_text().strip()}",
        "disk": filesystem(work_dir),
        **versions,
    }
