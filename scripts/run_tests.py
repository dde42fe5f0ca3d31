"""Runs the test programs of a build, two at a time, and the checks beside them; sums everything up.

The last line is exactly "N passed, N failed, N skipped". A program that crashes, hangs or says nothing counts as a failed test.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS_AT_ONCE = 2
DISTRIBUTED = "distributed_tests"  # starts under mpirun, once per number of ranks
NUMBERS_OF_RANKS = (1, 2, 3, 4, 8)
SECONDS_PER_PROGRAM = 1800


@dataclasses.dataclass
class Result:
    name: str
    passed: int = 0
    skipped: list[str] = dataclasses.field(default_factory=list)  # "test: why"
    failed: list[str] = dataclasses.field(default_factory=list)
    output: str = ""
    seconds: float = 0


def run_program(program: pathlib.Path, full: bool, pattern: str | None) -> Result:
    """One GoogleTest program."""
    result = Result(program.name)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [str(program), f"--gtest_output=json:{report}", "--gtest_brief=0", "--gtest_color=no"]
        command += ["--full"] if full else []
        command += [f"--gtest_filter={pattern}"] if pattern else []
        # Threads that wait must not take a core from the program beside this one.
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_PER_PROGRAM,
                                  env=environment, cwd=folder)
            status, raw = done.returncode, done.stdout
            ending = f"crashed (exit status {status})"
        except subprocess.TimeoutExpired as expired:
            status, raw = -1, expired.stdout or b""
            ending = f"did not end within {SECONDS_PER_PROGRAM} s"
        result.output = raw.decode(errors="replace")
        result.seconds = time.monotonic() - start
        if report.exists():
            read_report(json.loads(report.read_text()), result)
        else:
            read_output(result)
            result.failed.append(f"{last_test(result.output)}: the program {ending}")
    if status != 0 and not result.failed:
        result.failed.append(f"the program {ending} after its last test")
    return result


def run_ranks(program: pathlib.Path, ranks: int, full: bool, pattern: str | None) -> Result:
    """The program of tests/distributed under mpirun. A test passes when it passes at every rank."""
    result = Result(f"{program.name} x{ranks}")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [*mpirun(), "-n", str(ranks), str(program), "--report", folder, "--gtest_brief=0", "--gtest_color=no"]
        command += ["--full"] if full else []
        command += [f"--gtest_filter={pattern}"] if pattern else []
        status, launcher_output = run_launcher(command, folder)
        result.seconds = time.monotonic() - start
        per_rank = [read_rank(pathlib.Path(folder), rank) for rank in range(ranks)]
    join_ranks(per_rank, result)
    ending = f"did not end within {SECONDS_PER_PROGRAM} s" if status is None else f"ended with exit status {status}"
    if status != 0 and not result.failed:
        result.failed.append(f"the program {ending}")
    result.output = "".join(f"---- rank {rank} ----\n{failing_output(one)}\n" for rank, one in enumerate(per_rank) if one.failed)
    result.output += f"---- mpirun ----\n{launcher_output}" if status != 0 else ""
    return result


def mpirun() -> list[str]:
    """mpirun and what lets it start more ranks than there are cores; MPICH's does so anyway."""
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
    return ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none"] if "Open MPI" in version or "OpenRTE" in version else ["mpirun"]


def environment_of_ranks() -> dict[str, str]:
    """Sanitizers do not look for leaks in ranks: MPI leaks, in modules that it unloads, so that no list could name them."""
    return {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def run_launcher(command: list[str], folder: str) -> tuple[int | None, str]:
    """Exit status (None: took too long) and output of an mpirun command, which ends its ranks when it is ended."""
    environment = {**environment_of_ranks(), "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd=folder)
    try:
        output, _ = process.communicate(timeout=SECONDS_PER_PROGRAM)
        status = process.returncode
    except subprocess.TimeoutExpired:
        process.terminate()  # mpirun passes it on to the ranks
        try:
            output, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        status = None
    return status, output.decode(errors="replace")


def read_rank(folder: pathlib.Path, rank: int) -> Result:
    """What one rank has reported, or had told before it died."""
    result = Result(f"rank {rank}")
    text, report = folder / f"rank.{rank}.txt", folder / f"rank.{rank}.json"
    result.output = text.read_text(errors="replace") if text.exists() else ""
    if report.exists():
        read_report(json.loads(report.read_text()), result)
    else:
        read_output(result)
        if not result.failed:
            result.failed.append(f"{last_test(result.output)}: the rank died or was stopped")
    return result


def join_ranks(per_rank: list[Result], result: Result) -> None:
    result.passed = min(one.passed for one in per_rank)
    result.skipped = per_rank[0].skipped
    where: dict[str, list[str]] = {}
    for rank, one in enumerate(per_rank):
        for test in one.failed:
            elsewhere = f"FAILED  ] {test}, at another rank" in one.output
            where.setdefault(test, []).extend([] if elsewhere else [str(rank)])
    result.failed = [f"{test} (rank {' '.join(ranks) or 'unknown'})" for test, ranks in where.items()]


def read_report(report: dict, result: Result) -> None:
    for suite in report["testsuites"]:
        for test in suite["testsuite"]:
            name = f"{suite['name']}.{test['name']}"
            if test.get("failures"):
                result.failed.append(name)
            elif test.get("result") == "SKIPPED":
                result.skipped.append(f"{name}: {why_skipped(test, name, result.output)}")
            elif test.get("status") == "RUN":
                result.passed += 1


def why_skipped(test: dict, name: str, output: str) -> str:
    """GoogleTest puts the reason into the report since 1.12; before that only into the output."""
    if test.get("skipped"):
        return test["skipped"][0]["message"].strip().splitlines()[-1]
    text = output.partition(f"[ RUN      ] {name}\n")[2].partition("[  SKIPPED ]")[0].strip()
    return text.splitlines()[-1] if text else "no reason given"


def read_output(result: Result) -> None:
    """What a program had told before it died."""
    result.passed = len(re.findall(r"^\[       OK \]", result.output, re.M))
    result.skipped = [f"{name}: before the crash" for name in re.findall(r"^\[  SKIPPED \] (\S+) \(", result.output, re.M)]
    result.failed = re.findall(r"^\[  FAILED  \] (\S+?),? .*\(\d+ ms\)$", result.output, re.M)


def last_test(output: str) -> str:
    started = re.findall(r"^\[ RUN      \] (\S+)", output, re.M)
    return started[-1] if started else "start"


def check_formatting() -> Result:
    """clang-format 19 over every tracked source file; older ones lay code out differently."""
    result = Result("formatting")
    formatter = next((name for name in ("clang-format-19", "clang-format") if shutil.which(name) and major_version(name) == 19), None)
    if formatter is None:
        result.skipped.append("formatting: no clang-format 19 (scripts/setup --dev)")
        return result
    files = subprocess.run(["git", "ls-files", "*.h", "*.cpp"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    done = subprocess.run([formatter, "--dry-run", "--Werror", "--ferror-limit=1", *files], cwd=ROOT, capture_output=True, text=True)
    result.output = done.stderr
    if done.returncode == 0:
        result.passed = 1
    else:
        wrong = sorted({line.split(":")[0] for line in done.stderr.splitlines() if "-Wclang-format-violations" in line})
        result.failed.append(f"not laid out as .clang-format says; fix with: {formatter} -i {' '.join(wrong)}")
    return result


def major_version(program: str) -> int:
    text = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"version (\d+)", text)
    return int(found.group(1)) if found else 0


def run_script(script: pathlib.Path, build: pathlib.Path, peer: str) -> Result:
    """A test that is a script: tests/<layer>/<name>_test.sh BUILD [VENV]. Exit status 77 means skipped; the last line of its output says why."""
    result = Result(script.name)
    start = time.monotonic()
    command = ["bash", str(script), str(build)] + ([peer] if peer else [])
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment_of_ranks())
    result.output, result.seconds = done.stdout, time.monotonic() - start
    if done.returncode == 77:
        result.skipped.append(f"{script.name}: {done.stdout.strip().splitlines()[-1]}")
    elif done.returncode == 0:
        result.passed = 1
    else:
        result.failed.append(f"exit status {done.returncode}")
    return result


def report_progress(result: Result) -> None:
    counts = f"{result.passed} passed, {len(result.failed)} failed, {len(result.skipped)} skipped"
    print(f"{result.name:<24} {counts}  ({result.seconds:.1f} s)", flush=True)


def report_failures(results: list[Result]) -> None:
    for result in results:
        if not result.failed:
            continue
        print(f"\n---- output of {result.name} ----\n{failing_output(result)}")
    print()
    for result in results:
        for line in result.skipped:
            print(f"SKIPPED  {result.name}: {line}")
    for result in results:
        for line in result.failed:
            print(f"FAILED   {result.name}: {line}")


def failing_output(result: Result) -> str:
    """The sections of failed tests, or the end of the output when the program died."""
    sections = re.findall(r"^\[ RUN      \] .*\n(?:(?!\[ RUN  |\[       OK|\[  SKIPPED).*\n)*?\[  FAILED  \] .*$", result.output, re.M)
    text = "\n".join(sections) if sections and len(sections) == len(result.failed) else result.output
    return text if len(text) < 20000 else text[:2000] + "\n...\n" + text[-18000:]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--filter")
    parser.add_argument("--program", action="append", default=[])
    parser.add_argument("--peer", default="", help="virtual environment with torch and transformers, for the tests of what they read")
    options = parser.parse_args()

    options.build = options.build.resolve()  # each program runs in a folder of its own
    programs = sorted(options.build.glob("tests/*_tests"))
    scripts = sorted(ROOT.glob("tests/*/*_test.sh"))
    checks = [check_formatting]
    if options.program:
        programs = [program for program in programs if program.name in options.program]
    if options.filter or options.program:
        scripts, checks = [], []
    if not programs:
        print("error: no test program to run", file=sys.stderr)
        return 2

    results = []
    with concurrent.futures.ThreadPoolExecutor(PROGRAMS_AT_ONCE) as pool:
        waiting = [pool.submit(run_program, program, options.full, options.filter) for program in programs if program.name != DISTRIBUTED]
        waiting += [pool.submit(run_ranks, program, ranks, options.full, options.filter)
                    for program in programs if program.name == DISTRIBUTED for ranks in NUMBERS_OF_RANKS]
        waiting += [pool.submit(run_script, script, options.build, options.peer) for script in scripts]
        waiting += [pool.submit(check) for check in checks]
        for finished in concurrent.futures.as_completed(waiting):
            results.append(finished.result())
            report_progress(results[-1])

    results.sort(key=lambda result: result.name)
    report_failures(results)
    passed, failed, skipped = (sum(counts) for counts in zip(*((r.passed, len(r.failed), len(r.skipped)) for r in results)))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
