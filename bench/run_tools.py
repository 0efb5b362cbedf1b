# SPDX-License-Identifier: Apache-2.0
"""What the scripts that run benchmarks have in common."""
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def build(folder, *targets):
    if not (folder / "CMakeCache.txt").exists():
        subprocess.run(["cmake", "--preset", "openmp", "-B", folder], check=True, cwd=ROOT)
    subprocess.run(["cmake", "--build", folder, "--target", *targets], check=True, cwd=ROOT)


def commit():
    found = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True,
                           capture_output=True, check=False)
    return found.stdout.strip() or "unknown"


def write(file, results):
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=1)
    text = re.sub(r"\{[^{}\[\]]*\}", lambda flat: re.sub(r"\s*\n\s*", " ", flat[0]), text)  # one a line
    file.write_text(text + "\n", encoding="utf-8")
    print(f"wrote {file}")
