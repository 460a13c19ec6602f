"""Print the lowest supported versions of the dependencies, as constraints for pip.

python .ci/lowest.py > constraints.txt
pip install --constraint constraints.txt ".[cli,plot,report]"
"""

import tomllib
from pathlib import Path

EXTRAS = ("cli", "plot", "report")

project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]
wanted = [
    *project["dependencies"],
    *(each for extra in EXTRAS for each in project["optional-dependencies"][extra]),
]
print("\n".join(each.replace(">=", "==") for each in wanted))
