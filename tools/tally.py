#!/usr/bin/env python3
"""tally: reads junit files of ctest or pytest; shows each failure in a line and whole, tells the slowest, and prints "PASSED FAILED" last.

A test program of ours closes with "N passed, N failed": then its cases count, else the program counts as one.
A program that ended badly counts at least one failure. No test at all is a failure as well.
"""

import heapq
import re
import sys
import xml.etree.ElementTree as ElementTree

SLOWEST = 10
CLOSING = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)
# The line that says most: of pytest, of test/check.h, of a sanitizer, of a simulator.
REASON = re.compile(r"^(?:E +.+|\S+:\d+: .+|.*(?:ERROR: \w+Sanitizer|runtime error).*|FAILED .+)$", re.MULTILINE)
REASON_LENGTH = 240


def why(text):
    """One line of what a failed test said."""
    found = REASON.search(text)
    line = found.group(0) if found else next((line for line in text.splitlines() if line.strip()), "said nothing")
    return " ".join(line.split())[:REASON_LENGTH]


def main():
    passed = failed = 0
    cases = [case for file in sys.argv[1:] for case in ElementTree.parse(file).getroot().iter("testcase")]
    for case in cases:
        trouble = [child for child in case if child.tag in ("failure", "error")]
        if any(child.tag == "skipped" for child in case):
            reason = next(child for child in case if child.tag == "skipped").get("message", "")
            print(f"    skipped {case.get('name')}: {reason}")
            continue
        output = case.findtext("system-out") or ""
        closing = CLOSING.findall(output)
        good, bad = (int(n) for n in closing[-1]) if closing else (0 if trouble else 1, 0)
        if trouble:
            bad = max(bad, 1)
            said = "\n".join(filter(None, [child.text or child.get("message") for child in trouble]))
            where = case.get("classname") or ""
            print(f"==== FAILED {where + '::' if where and where != case.get('name') else ''}{case.get('name')}: {why(said + chr(10) + output)}")
            print(said)
            print(output)
        passed, failed = passed + good, failed + bad
    slowest = [row for row in heapq.nlargest(SLOWEST, ((float(case.get("time") or 0), case.get("name")) for case in cases)) if row[0] >= 1]
    if slowest:
        print("    slowest: " + ", ".join(f"{name} {seconds:.1f} s" for seconds, name in slowest))
    if passed + failed == 0:
        print("    no test was run, and that is a failure")
        failed = 1
    print(passed, failed)


if __name__ == "__main__":
    main()
