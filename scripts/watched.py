"""Runs a command, and ends it once it has printed nothing for SECONDS: watched.py SECONDS COMMAND [ARGUMENT…]

A test that never ends would otherwise cost its run's whole time, and be named nowhere. Printed before the end: the tests that were still
running, the processes with what the kernel says that they wait for, and the stacks of the silent ones' threads where gdb is there.
Exit status: the command's, or 124.
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

SILENT = 124
# What Rust's test runner prints.
LONG = re.compile(r"^test (\S+) has been running for over 60 seconds")
ENDED = re.compile(r"^test (\S+)(?: - .*)? \.\.\. ")
COMMAND_CHARS = 160
STACK_LINES = 400
GDB_S = 60
TERM_S = 5


def stat_of(pid: str) -> tuple[int, str] | None:
    """Its parent and its state."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), fields[0]


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def descendants(root: int) -> list[tuple[int, int]]:
    """Each process below `root` with its depth, parents first."""
    children: dict[int, list[int]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if stat := stat_of(pid):
            children.setdefault(stat[0], []).append(int(pid))
    found = []

    def walk(pid: int, depth: int) -> None:
        for child in sorted(children.get(pid, [])):
            found.append((child, depth))
            walk(child, depth + 1)

    walk(root, 0)
    return found


def say(text: str) -> None:
    print(text, flush=True)


def show_state(running: list[str]) -> None:
    say("tests that were still running after a minute: " + (", ".join(running) or "none is known"))
    processes = descendants(os.getpid())
    for pid, depth in processes:
        stat = stat_of(str(pid))
        command = read(f"/proc/{pid}/cmdline").replace("\0", " ")[:COMMAND_CHARS]
        waits = {read(path) for path in glob.glob(f"/proc/{pid}/task/*/wchan")}
        say(f"{'  ' * depth}{pid} {stat[1] if stat else '?'} {command} [{' '.join(sorted(waits))}]")
    if not shutil.which("gdb"):
        return
    for pid, _ in processes:
        if "/deps/" in read(f"/proc/{pid}/cmdline").partition("\0")[0]:
            command = ["gdb", "--batch", "-p", str(pid), "-ex", "thread apply all backtrace 30"]
            found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=GDB_S, stdin=subprocess.DEVNULL)
            lines = [line for line in found.stdout.splitlines() if line.startswith(("Thread", "#"))]
            say("\n".join(lines[:STACK_LINES]))


def end_all() -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid, _ in reversed(descendants(os.getpid())):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        time.sleep(TERM_S)


def main() -> int:
    limit_s, command = float(sys.argv[1]), sys.argv[2:]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    last = time.monotonic()
    running: dict[str, None] = {}

    def forward() -> None:
        nonlocal last
        for line in child.stdout:
            last = time.monotonic()
            if long := LONG.match(line):
                running[long[1]] = None
            elif ended := ENDED.match(line):
                running.pop(ended[1], None)
            sys.stdout.write(line)
            sys.stdout.flush()

    forwarding = threading.Thread(target=forward, daemon=True)
    forwarding.start()
    while child.poll() is None:
        if time.monotonic() - last > limit_s:
            say(f"watched.py: nothing was printed for {limit_s:g} s by {' '.join(command)}")
            try:
                show_state(list(running))
            except subprocess.TimeoutExpired as error:
                say(str(error))
            finally:
                end_all()
            return SILENT
        time.sleep(0.2)
    # What a grandchild with the same output still prints is not waited for.
    forwarding.join(TERM_S)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(main())
