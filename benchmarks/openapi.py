"""The description of the service against the service itself, with schemathesis and three roles.

    pip install schemathesis==4.32.0
    python benchmarks/openapi.py --examples 50 --json docs/numbers/service.json

For every address of /api/openapi.json it makes requests that fit the description and requests that
do not, as a site, a reviewer and an operator. Nothing may be answered with a 5xx, with a status
that the description lacks, or with a body of another type.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import json
import re
import subprocess
import tempfile

import bench
from ledgers import play
from served import Served

CHECKS = ",".join(
    (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    )
)
SKIPPED = ("/api/tokens/revoke", "/api/export")  # it would take our own tokens; it is no JSON


def looked_through(served, role, examples, seed, command):
    """What schemathesis says of one role: how many requests it made, and what failed."""
    arguments = [command, "run", f"{served.url}/api/openapi.json", f"--seed={seed}"]
    arguments += [f"--header=Authorization: Bearer {served.tokens[role]}", f"--checks={CHECKS}"]
    arguments += [f"--max-examples={examples}", "--phases=examples,coverage,fuzzing", "--no-color"]
    arguments += ["--mode=all", "--continue-on-failure", "--suppress-health-check=all"]
    arguments += [f"--exclude-path={path}" for path in SKIPPED]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=3600, check=False)
    text = done.stdout + done.stderr
    made = re.search(r"(\d+) generated", text)
    print(text[-6000:] if done.returncode else text.splitlines()[-1], flush=True)
    return {"failed": done.returncode, "requests": int(made[1]) if made else 0}


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--examples", type=int, default=50, help="for each address and kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--command", default="schemathesis", help="where schemathesis is")
    options = parser.parse_args()
    results, found = bench.Results(options.json), {}
    for role in ("site", "reviewer", "operator"):
        with tempfile.TemporaryDirectory() as folder, Served(Path(folder)) as served:
            play(served.ledger, 20)
            given = (role, options.examples, options.seed, options.command)
            found[role] = looked_through(served, *given)
            found[role]["whole"] = served.ledger.verify(progress=False).whole
            answers = served.service.meter.requests
            statuses = sorted({status for _, _, status in answers})
            found[role] |= {"answers": sum(answers.values()), "statuses": statuses}
            print(role, json.dumps(found[role]), flush=True)
    results.keep("openapi", {"run": bench.described(bench.load_before()), **found})
    assert all(one["whole"] and max(one["statuses"]) < 500 for one in found.values())
    assert not any(one["failed"] for one in found.values())


if __name__ == "__main__":
    main()
