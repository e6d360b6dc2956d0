"""The figures and the table of claims of docs/study.md, from runs of `saferank reproduce`.

`python docs/figures/study.py NAME=FOLDER ...` copies each run's figures beside this script (figure
1, which needs no run, once) and prints the claims with what every run found. A folder of several
collections has the figures with a column for each, and its claims are printed by themselves.
"""

import json
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(runs):
    claims = {}
    for name, folder in runs.items():
        for figure in range(2, 8):
            if (drawn := folder / f"figure-{figure}.svg").is_file():
                (HERE / f"study-{name}-{figure}.svg").write_text(thin(drawn.read_text()))
        if (folder / "figure-1.svg").is_file():
            shutil.copy(folder / "figure-1.svg", HERE / "study-1.svg")
        if (told := folder / "claims.json").is_file():
            claims[name] = json.loads(told.read_text())["claims"]
        else:
            print((folder / "claims.md").read_text())
    if claims:
        table(claims)


def thin(svg):
    """A figure without the labels of its single marks, numbers with two digits."""
    plain = re.sub(r' (?:aria-[a-z]+|role)="[^"]*"', "", svg)
    return re.sub(r"(\d+\.\d\d)\d+", r"\1", plain)


def table(claims):
    print("| figure | claim |" + "".join(f" {name} |" for name in claims))
    print("| --- | --- |" + " --- |" * len(claims))
    for rows in zip(*claims.values(), strict=True):
        first = rows[0]
        assert all(row["sentence"] == first["sentence"] for row in rows)
        verdicts = " | ".join(f"{mark(row)}: {row['numbers']}" for row in rows)
        print(f"| {first['figure']} | {first['sentence']} | {verdicts} |")


def mark(row):
    return {"holds": "**holds**", "does not hold": "**does not**"}.get(row["verdict"], "open")


if __name__ == "__main__":
    main({name: Path(folder) for name, _, folder in (word.partition("=") for word in sys.argv[1:])})
