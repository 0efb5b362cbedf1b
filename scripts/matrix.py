#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and tests fasttree with the Kokkos versions, execution spaces and compilers it supports.

Prints a table and writes it, with what was found, to a results file. A leg that could not be set up is
listed as not run, with its reason, and fails nothing. Legs with a part that moves on its own (Debian
unstable) only report; the others decide the exit status, and show the errors of the log where they
fail. Logs are in build/matrix.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "matrix"
RESULTS = ROOT / "bench" / "results" / "portability.json"
README = ROOT / "README.md"


@dataclasses.dataclass
class Leg:
    name: str
    space: str
    kokkos_from: str  # one of FASTTREE_KOKKOS_FROM
    compiler: str = "c++"
    standard: int = 20
    unstable: bool = False  # in a root of Debian unstable; reports only
    quick: bool = False  # has parts that scripts/test does not have

    # What came of it.
    status: str = "not run"
    reason: str = ""
    kokkos: str = ""
    compiler_found: str = ""
    tests_run: int = 0
    tests_passed: int = 0
    seconds: int = 0


LEGS = [
    Leg("oldest-serial", "Serial", "pypi"),
    Leg("oldest-openmp", "OpenMP", "pypi"),
    Leg("oldest-threads", "Threads", "pypi", quick=True),
    Leg("oldest-clang", "OpenMP", "pypi", compiler="clang++", quick=True),
    Leg("release-openmp", "OpenMP", "release"),
    Leg("newest-openmp", "OpenMP", "find", unstable=True, quick=True),
    Leg("newest-c++23", "OpenMP", "find", unstable=True, standard=23),
]


class NotRun(Exception):
    """The leg could not be set up."""


class Failed(Exception):
    """The leg was set up, and fasttree did not build or pass there."""


class Runner:
    """Runs the commands of one leg, writes their output to its log, and stops at the deadline."""

    def __init__(self, leg, deadline):
        self.leg, self.deadline = leg, deadline
        self.log = WORK / f"{leg.name}.log"
        self.log.write_text("")

    def run(self, what, command, out_of_time=NotRun, **options):
        """Returns the exit status and the output; raises `out_of_time` at the deadline."""
        self.progress(what)
        with self.log.open("a") as log:
            log.write(f"\n$ {' '.join(map(str, command))}\n")
            log.flush()
            begin = log.tell()
            process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, **options)
            try:
                process.wait(timeout=max(0, self.deadline - time.monotonic()))
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise out_of_time(f"no time left in the budget, stopped while {what}") from None
                raise
        return process.returncode, self.log.read_bytes()[begin:].decode(errors="replace")

    def show_errors(self, most=30):
        """Prints the lines of the log that tell of errors, or its end where none does."""
        lines = self.log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if re.search(r"error:|ERROR|Error at|\*\*\*Failed|Timeout", line)]
        print("\n".join((errors or lines[-most:])[:most]), flush=True)

    def progress(self, what):
        print(f"{time.strftime('%H:%M:%S')}  {self.leg.name}: {what}", flush=True)


def debian_mirror():
    """The mirror that this machine's apt takes Debian from."""
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(SITE)"], capture_output=True, text=True)
    for line in targets.stdout.splitlines():
        origin, _, site = line.partition(" ")
        if origin == "Debian":
            return site
    raise NotRun("apt here has no Debian mirror")


def unstable_root(runner):
    """Makes a root of Debian unstable with its Kokkos, or takes the one of an earlier run."""
    root = WORK / "unstable"
    complete = root / "complete"
    if complete.exists():
        return root
    if os.geteuid() != 0:
        raise NotRun("a Debian unstable root takes root's rights")
    if not shutil.which("mmdebstrap"):
        raise NotRun("no mmdebstrap")
    if root.exists():
        shutil.rmtree(root)
    status, _ = runner.run("installing Debian unstable", [
        "unshare", "--mount", "mmdebstrap", "--variant=apt", "--include=g++,cmake,ninja-build,libkokkos-dev,doctest-dev",
        '--aptopt=Acquire::Check-Valid-Until "false"', "sid", root, debian_mirror()])
    if status != 0:
        raise NotRun("Debian unstable could not be installed")
    # Two archives that the package's CMake files name are not in the package.
    for folder in (root / "usr" / "lib").glob("*-linux-gnu"):
        for name in ("libkokkosalgorithms.a", "libkokkossimd.a"):
            if list(folder.glob("libkokkoscore*")) and not (folder / name).exists():
                (folder / name).write_bytes(b"!<arch>\n")
    complete.touch()
    return root


def copy_sources(folder):
    """Copies the repository without its history and builds."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT, folder, ignore=lambda parent, _: {"build", ".git"} if parent == str(ROOT) else {})


def run_leg(leg, runner):
    """Configures, builds and tests; fills in what the table says about the leg."""
    build = WORK / leg.name
    source, prefix, visible_build = ROOT, [], build
    if leg.unstable:
        root = unstable_root(runner)
        copy_sources(root / "fasttree")
        build = root / "build" / leg.name
        source, visible_build = pathlib.Path("/fasttree"), pathlib.Path("/build") / leg.name
        # The root's /proc, and every process in the root, end with this command.
        prefix = ["unshare", "--pid", "--fork", "--kill-child", f"--mount-proc={root / 'proc'}",
                  "chroot", root, "env", "-i", "PATH=/usr/bin:/bin",
                  f"CMAKE_BUILD_PARALLEL_LEVEL={os.cpu_count()}"]
    elif not shutil.which(leg.compiler):
        raise NotRun(f"no {leg.compiler}")

    status, output = runner.run("configuring", prefix + [
        "cmake", "-S", source, "-B", visible_build, "--preset", "openmp",
        f"-DCMAKE_CXX_COMPILER={leg.compiler}", f"-DCMAKE_CXX_STANDARD={leg.standard}",
        f"-DFASTTREE_KOKKOS_FROM={leg.kokkos_from}", f"-DFASTTREE_KOKKOS_SPACES={leg.space}",
        f"-DFASTTREE_TEST_SPACES={leg.space}", "-DFASTTREE_BUILD_BENCHMARKS=OFF",
        "-DFASTTREE_NVCC_FROM="], cwd=ROOT)  # what nvcc compiles, scripts/test does
    if "fasttree: no Kokkos" in output:
        reason = re.findall(r"not to be had, (.*)", output) or re.findall(r"fasttree: (no Kokkos.*)", output)
        raise NotRun(f"no Kokkos: {reason[-1]}")
    if found := re.search(r"fasttree: Kokkos (\S+) \(", output):
        leg.kokkos = found[1]
    for compiler in (build / "CMakeFiles").glob("*/CMakeCXXCompiler.cmake"):
        known = dict(re.findall(r'set\((CMAKE_CXX_COMPILER_(?:ID|VERSION)) "(.*)"\)', compiler.read_text()))
        leg.compiler_found = " ".join(known.values())
    if status != 0:
        raise Failed("does not configure")

    status, _ = runner.run("building", prefix + ["cmake", "--build", visible_build])
    if status != 0:
        raise Failed("does not build")

    report = build / "tests.xml"
    report.unlink(missing_ok=True)
    status, _ = runner.run("testing", prefix + [
        "ctest", "--test-dir", visible_build, "--parallel", str(os.cpu_count()), "--output-on-failure",
        "--no-tests=error", "--label-exclude", "sources",  # scripts/test checks the sources, once
        "--output-junit", visible_build / "tests.xml"], out_of_time=Failed)
    if not report.exists():
        raise Failed("ctest wrote no report")
    counts = ElementTree.parse(report).getroot().attrib
    leg.tests_run = int(counts["tests"]) - int(counts["skipped"]) - int(counts["disabled"])
    leg.tests_passed = leg.tests_run - int(counts["failures"])
    if status != 0:
        raise Failed(f"{leg.tests_run - leg.tests_passed} tests fail")


def table(legs):
    """The legs as a table in Markdown."""
    rows = [("Kokkos", "space", "compiler", "standard", "tests passed / run", "result")]
    for leg in legs:
        tests = f"{leg['tests_passed']} / {leg['tests_run']}" if leg["tests_run"] else ""
        remark = leg["status"] + (f": {leg['reason']}" if leg["reason"] else "")
        rows.append((leg["kokkos"] or leg["name"].split("-")[0], leg["space"],
                     leg["compiler_found"] or leg["compiler"], f"C++{leg['standard']}", tests, remark))
    widths = [max(map(len, column)) for column in zip(*rows)]
    rows.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows)


def show_in_readme(text):
    """Puts the table between README.md's two markers."""
    begin, end = "<!-- portability -->\n", "<!-- /portability -->"
    readme = README.read_text() if README.exists() else ""
    if begin in readme:
        head, tail = readme.split(begin)[0], readme.split(end)[1]
        README.write_text(f"{head}{begin}\n{text}\n\n{end}{tail}")


def commit():
    if not shutil.which("git"):
        return ""
    described = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"],
                               cwd=ROOT, capture_output=True, text=True)
    return described.stdout.strip()


def main():
    parser = argparse.ArgumentParser(prog="scripts/matrix", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("legs", nargs="*", metavar="leg",
                        help="legs to run, whose results replace earlier ones: " + ", ".join(leg.name for leg in LEGS) + "; all by default")
    parser.add_argument("--quick", action="store_true",
                        help="only the legs whose parts scripts/test does not have, and the results "
                             "in build/matrix")
    parser.add_argument("--minutes", type=float, default=180, help="time for all legs, at most")
    parser.add_argument("--fresh", action="store_true", help="build everything anew")
    options = parser.parse_args()

    unknown = set(options.legs) - {leg.name for leg in LEGS}
    if unknown:
        parser.error(f"no such leg: {', '.join(sorted(unknown))}")
    legs = [leg for leg in LEGS if (leg.name in options.legs if options.legs else leg.quick or not options.quick)]

    if options.fresh:
        shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + 60 * options.minutes
    for leg in legs:
        begin = time.monotonic()
        runner = Runner(leg, deadline)
        try:
            run_leg(leg, runner)
            leg.status = "passed"
        except NotRun as error:
            leg.reason = str(error)
        except Failed as error:
            leg.status, leg.reason = "failed", str(error)
        leg.seconds = round(time.monotonic() - begin)
        if leg.status == "failed" and not leg.unstable:
            runner.show_errors()
        runner.progress(f"{leg.status}{': ' * bool(leg.reason)}{leg.reason} ({leg.seconds} s, {runner.log.relative_to(ROOT)})")

    run = {"date": datetime.date.today().isoformat(), "commit": commit()}
    rows = {leg.name: {**{k: v for k, v in dataclasses.asdict(leg).items() if k != "quick"}, **run}
            for leg in legs}
    print(f"\n{table(rows.values())}\n")
    results = WORK / "portability.json" if options.quick else RESULTS
    if options.legs and results.exists():  # the other legs keep what an earlier run found
        earlier = {leg["name"]: leg for leg in json.loads(results.read_text())["legs"]}
        rows = {leg.name: rows.get(leg.name) or earlier[leg.name]
                for leg in LEGS if leg.name in rows or leg.name in earlier}
    results.parent.mkdir(parents=True, exist_ok=True)
    context = {"machine": platform.machine(), "cores": os.cpu_count()}
    results.write_text(json.dumps({"context": context, "legs": list(rows.values())}, indent=2) + "\n")
    if results == RESULTS:
        show_in_readme(table(rows.values()))
    print(f"results: {results.relative_to(ROOT)}")
    return any(leg.status == "failed" and not leg.unstable for leg in legs)


if __name__ == "__main__":
    sys.exit(main())
