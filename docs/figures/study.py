"""The figures and the table of claims of docs/study.md, from runs of `saferank reproduce`.

`python docs/figures/study.py NAME=FOLDER ...` copies each run's figures beside this script (figure
1, which needs no run, once) and prints the claims with what every run found.
"""

import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(runs):
    for name, folder in runs.items():
        for figure in range(2, 8):
            shutil.copy(folder / f"figure-{figure}.svg", HERE / f"study-{name}-{figure}.svg")
    shutil.copy(next(iter(runs.values())) / "figure-1.svg", HERE / "study-1.svg")
    claims = {
        name: json.loads((folder / "claims.json").read_text())["claims"]
        for name, folder in runs.items()
    }
    print("| figure | claim |" + "".join(f" {name} |" for name in runs))
    print("| --- | --- |" + " --- |" * len(runs))
    for rows in zip(*claims.values(), strict=True):
        first = rows[0]
        assert all(row["sentence"] == first["sentence"] for row in rows)
        verdicts = " | ".join(f"{mark(row)}: {row['numbers']}" for row in rows)
        print(f"| {first['figure']} | {first['sentence']} | {verdicts} |")


def mark(row):
    return {"holds": "**holds**", "does not hold": "**does not**"}.get(row["verdict"], "open")


if __name__ == "__main__":
    main({name: Path(folder) for name, _, folder in (word.partition("=") for word in sys.argv[1:])})
