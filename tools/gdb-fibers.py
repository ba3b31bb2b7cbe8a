# gdb-fibers.py: shows the fibers of a stopped process or a core.
#
#     (gdb) source tools/gdb-fibers.py
#     (gdb) fibers              every living fiber: its loop, what it runs, how it waits
#     (gdb) fiber ADDRESS       a backtrace of one that is suspended
#
# x86-64 only: the frame is the one that src/rt/switch_x86_64.S writes.
import gdb

COLOURS, COLOUR_BYTES = 16, 128  # src/rt/stack.c


def loops():
    symbol = gdb.lookup_static_symbol("rt")
    if symbol is None:
        raise gdb.GdbError("no variables in this build (-g1): take build/forebay, whose debug information is whole")
    runtime = symbol.value()
    return [runtime["loops"][i] for i in range(int(runtime["count"]))]


def fibers_of(loop):
    fiber = gdb.lookup_type("struct fiber")
    stacks = loop["stacks"]
    base, size = int(stacks["base"]), int(stacks["slot_size"])
    for slot in range(int(stacks["slot"])):
        top = base + (slot + 1) * size - slot % COLOURS * COLOUR_BYTES
        at = top - (fiber.sizeof + 63) // 64 * 64
        value = gdb.Value(at).cast(fiber.pointer())
        if int(value["fn"]) != 0:
            yield value


class Fibers(gdb.Command):
    def __init__(self):
        super().__init__("fibers", gdb.COMMAND_STACK)

    def invoke(self, _text, _tty):
        for loop in loops():
            for f in fibers_of(loop):
                state = "runs" if int(loop["self"]) == int(f) else "waits" if f["waiting"] else "ready"
                flags = [name for name in ("owed", "cancelled") if f[name]]
                print(f"{int(f):#x} loop {int(loop['index'])} {state} {' '.join(flags)} {f['fn']}")


class Fiber(gdb.Command):
    def __init__(self):
        super().__init__("fiber", gdb.COMMAND_STACK)

    def invoke(self, text, _tty):
        f = gdb.parse_and_eval(text).cast(gdb.lookup_type("struct fiber").pointer())
        word = gdb.lookup_type("unsigned long")
        sp = int(f["sp"])
        names = ["r15", "r14", "r13", "r12", "rbx", "rbp", "rip"]
        saved = {n: int(gdb.parse_and_eval(f"${n}").cast(word)) for n in names + ["rsp"]}
        frame = gdb.Value(sp).cast(word.pointer())
        gdb.execute("select-frame 0", to_string=True)
        try:
            for i, name in enumerate(names):
                gdb.execute(f"set var ${name} = {int(frame[i + 1])}")
            gdb.execute(f"set var $rsp = {sp + 8 * 8}")
            gdb.execute("backtrace")
        finally:
            for name, value in saved.items():
                gdb.execute(f"set var ${name} = {value}")


Fibers()
Fiber()
