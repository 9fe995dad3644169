"""Sum the JUnit reports of a directory into one line; fail if any test, or any step without a failed test, failed."""

import sys
from pathlib import Path
from xml.etree import ElementTree


def main(directory: Path) -> int:
    passed = failed = skipped = 0
    steps_failed = {path.stem for path in directory.glob("*.failed")}
    for report in directory.glob("*.xml"):
        suite = ElementTree.parse(report).getroot().find("testsuite")
        assert suite is not None, f"{report.name} holds no testsuite"
        tests, skips, failures, errors = (
            int(suite.attrib[name]) for name in ("tests", "skipped", "failures", "errors")
        )
        passed += tests - skips - failures - errors
        failed += failures + errors
        skipped += skips
        if failures + errors:
            steps_failed.discard(report.stem)
    failed += len(steps_failed)  # such a step failed as a whole: the linter, or a test run that broke off

    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
