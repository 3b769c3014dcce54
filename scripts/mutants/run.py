"""Tries each mutant of a tree that instrument.py made: run.py TREE MUTANTS RESULTS [PATTERN…], the files whose mutants are tried.

First every test runs once, without a mutant, and what it reaches is noted. Then each mutant is tried with tests that reach it, until one
fails: the unit tests of the crates, then the integration tests that are most about its file. What was tried before is not tried again
while the mutant's text is the same; so a run that was ended goes on.
"""

import concurrent.futures
import fnmatch
import hashlib
import json
import mmap
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

HERE = pathlib.Path(__file__).parent
# Mutants that are tried at once, and tests of one that run side by side.
PARALLEL = int(os.environ.get("MUTANTS_PARALLEL", "2"))
TEST_THREADS = 3
# Integration tests that a mutant is tried with: first those that killed others of its function, then those that are most about its file,
# then quick ones.
KILLERS, CLOSEST, MORE = 2, 12, 28
# A mutant is killed by time where its tests take so many times as long as without it, and at least this long [s].
SLOWER, SHORTEST_S = 8, 90
# As many bytes as mutant.rs maps.
MOST = 65_536

PASSED = re.compile(r"^test (\S+) \.\.\. (ok|FAILED|ignored)")


class Binary:
    def __init__(self, name, path, folder, integration):
        self.name, self.path, self.folder, self.integration = name, path, folder, integration

    def run(self, arguments, environment, heard, timeout_s):
        """Runs it, and tells each test that ends to `heard` until that says to stop. Returns how it ended."""
        home = tempfile.mkdtemp(prefix="rm")
        process = subprocess.Popen(
            [self.path, *arguments],
            cwd=self.folder,
            env={**os.environ, "TMPDIR": home, "INSTA_UPDATE": "no", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        late = threading.Timer(timeout_s, lambda: os.killpg(process.pid, signal.SIGKILL))
        late.start()
        began, told = time.monotonic(), None
        try:
            for line in process.stdout:
                if (match := PASSED.match(line)) and (told := heard(*match.groups())):
                    return told
            status = process.wait()
            if time.monotonic() - began >= timeout_s:
                return "timeout"
            return None if status == 0 else "crash"
        finally:
            late.cancel()
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.stdout.close()
            process.wait()
            shutil.rmtree(home, ignore_errors=True)


def binaries(tree):
    """The test binaries, which are built already."""
    command = ["cargo", "test", "--locked", "--no-run", "--message-format=json", "-p", "rejoin-tests"]
    for crate in ["db", "queue", "event-log", "identity", "commands", "data-sources", "http", "api"]:
        command += ["-p", f"rejoin-{crate}"]
    command += ["--lib", "--test", "*"]
    found = {}
    for line in subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["profile"]["test"]:
            folder = pathlib.Path(message["manifest_path"]).parent
            integration = message["target"]["kind"] == ["test"]
            name = message["target"]["name"] if integration else folder.name
            found[name] = Binary(name, message["executable"], folder, integration)
    return found


def reached_by(binary, filters, log):
    """Runs tests one after the other, and returns for each how long it took and what it reached. Units are one test: they take no time."""
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(MOST)
        seen, began = mmap.mmap(file.fileno(), MOST), time.monotonic()
        tests = {}

        def heard(name, result):
            nonlocal began
            if result == "FAILED":
                log(f"{binary.name} {name} fails without a mutant: it is left out")
            if binary.integration and result == "ok":
                now = time.monotonic()
                tests[name] = {"seconds": round(now - began, 2), "reached": [n for n, byte in enumerate(seen[:]) if byte]}
                seen[:] = bytes(MOST)
                began = now

        ended = binary.run([*filters, "--test-threads=1"], {"REJOIN_MUTANTS_REACHED": file.name}, heard, 3600)
        if not binary.integration:
            if ended:
                raise SystemExit(f"the unit tests of {binary.name} fail without a mutant: {ended}")
            tests["all"] = {"seconds": round(time.monotonic() - began, 2), "reached": [n for n, byte in enumerate(seen[:]) if byte]}
        return tests


def place_of(mutant):
    """The function that a mutant is in; of SQL the file, or what tests are named for it."""
    return (mutant["file"], (mutant.get("function") or {}).get("function_name") if mutant["genre"] != "Sql" else str(mutant.get("tests")))


def module_of(mutant):
    """The part of a crate that a mutant is in, as the names of its unit tests begin."""
    return pathlib.Path(mutant["file"]).with_suffix("").parts[2] + "::"


class Trial:
    def __init__(self, tree, mutants, log):
        self.log, self.mutants = log, mutants
        self.binaries = binaries(tree)
        self.chosen = tomllib.loads((HERE / "tests.toml").read_text())
        # By place_of: the integration tests that killed a mutant there, the newest first.
        self.killers = {}

    def reach(self, path):
        # Their numbers, which other mutants may have by now.
        names = {mutant["id"]: mutant["name"] for mutant in self.mutants}
        names = hashlib.sha256(json.dumps(names).encode()).hexdigest()
        if path.exists() and (known := json.loads(path.read_text()))["of"] == names:
            self.tests = known["tests"]
            return
        self.log("without a mutant: what each test reaches")
        filters = [f"{module}::" for module in self.chosen["modules"]]
        skipped = [part for name in self.chosen["skip"] for part in ("--skip", name)]
        # A program without a test of a module runs none.
        parts = [(binary, [*filters, *skipped] if binary.integration else []) for binary in self.binaries.values()]
        self.tests = {name: {} for name in self.binaries}
        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            for part, tests in zip(parts, pool.map(lambda part: reached_by(*part, self.log), parts)):
                self.tests[part[0].name] |= tests
        path.write_text(json.dumps({"of": names, "tests": self.tests}))

    def killed(self, mutant, test):
        killers = self.killers.setdefault(place_of(mutant), [])
        if test in killers:
            killers.remove(test)
        killers.insert(0, test)

    def tests_of(self, mutant):
        """The integration tests that a mutant is tried with, in lots."""
        lots = self.candidates(mutant)
        first = [name for name in self.killers.get(place_of(mutant), []) if any(name in lot for lot in lots)][:KILLERS]
        return [first, *([name for name in lot if name not in first] for lot in lots)]

    def integration_tests(self):
        """All integration tests, by name: a module is in one program only."""
        found = {}
        for name, binary in self.binaries.items():
            if binary.integration:
                found |= self.tests[name]
        return found

    def candidates(self, mutant):
        of_it = self.integration_tests()
        if "tests" in mutant:
            return [[name for name in of_it if name.startswith(tuple(mutant["tests"]))]]
        own = {other["id"] for other in self.mutants if other["file"] == mutant["file"]}
        reaching = {name: test for name, test in of_it.items() if mutant["id"] in test["reached"]}

        def closeness(name):
            reached = reaching[name]["reached"]
            return -len(own.intersection(reached)) / len(reached) / (1 + reaching[name]["seconds"] / 10)

        by_closeness = sorted(reaching, key=closeness)
        by_time = sorted(by_closeness[CLOSEST:], key=lambda name: reaching[name]["seconds"])
        return [by_closeness[:CLOSEST], by_time[:MORE]]

    def try_one(self, mutant):
        environment = {"REJOIN_MUTANT": str(mutant["id"])}
        if "sql" in mutant:
            environment["REJOIN_MUTANT_SQL"] = mutant["sql"]
        tried = 0
        # Unit tests of its module first: they take no time.
        units = [
            name
            for name, tests in self.tests.items()
            if not self.binaries[name].integration and mutant["id"] in tests["all"]["reached"]
        ]
        lots = [(name, [], self.tests[name]["all"]) for name in units]
        for names in self.tests_of(mutant):
            for program, binary in self.binaries.items():
                own = [name for name in names if name in self.tests[program]] if binary.integration else []
                if own:
                    seconds = sum(self.tests[program][name]["seconds"] for name in own)
                    lots.append((program, own, {"seconds": seconds / TEST_THREADS}))
        if not lots:
            return {"state": "unreached"}
        for name, names, test in lots:
            tried += len(names) or 1
            arguments = [*names, "--exact"] if names else [module_of(mutant)]
            threads = TEST_THREADS if names else 2
            timeout_s = max(SHORTEST_S, SLOWER * test["seconds"])

            def heard(test, result):
                return test if result == "FAILED" else None

            told = self.binaries[name].run([*arguments, f"--test-threads={threads}"], environment, heard, timeout_s)
            if told:
                if self.binaries[name].integration and told in names:
                    self.killed(mutant, told)
                return {"state": "timeout" if told == "timeout" else "killed", "by": f"{name} {told}"}
        return {"state": "survived", "tried": tried}


def main():
    tree, mutants_path, results_path = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    patterns = sys.argv[4:] or ["*"]
    mutants = json.loads(mutants_path.read_text())
    began = time.monotonic()

    def log(text):
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    trial = Trial(tree, mutants, log)
    trial.reach(results_path.with_name("reach.json"))
    results = json.loads(results_path.read_text()) if results_path.exists() else {}
    left = [
        mutant
        for pattern in patterns
        for mutant in mutants
        if mutant["state"] == "switched" and fnmatch.fnmatch(mutant["file"], pattern) and mutant["name"] not in results
    ]
    # Statements first: what keeps tenants and leases is in them.
    left.sort(key=lambda mutant: mutant["genre"] != "Sql")
    log(f"{len(left)} mutants to try")
    writing = threading.Lock()

    def try_it(mutant):
        result = trial.try_one(mutant)
        with writing:
            results[mutant["name"]] = result
            results_path.write_text(json.dumps(results, indent=1))
            log(f"{result['state']:9} {mutant['file']}:{mutant['line']} {mutant['name'].split(': ')[-1]}  {result.get('by', '')}")

    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(try_it, left))


main()
