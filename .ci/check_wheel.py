"""Is every file of the package in the wheel, and nothing else?

python .ci/check_wheel.py dist/*.whl
"""

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

wanted = {
    str(path.relative_to(ROOT))
    for path in (ROOT / "jaxkick").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}
held = {name for name in zipfile.ZipFile(sys.argv[1]).namelist() if ".dist-info/" not in name}
if wanted != held:
    sys.exit(f"not in the wheel: {sorted(wanted - held)}; too much: {sorted(held - wanted)}")
for name in (
    "jaxkick/py.typed",
    "jaxkick/data/bundesliga.csv.gz",
    "jaxkick/report/assets/page.html",
):
    if name not in held:
        sys.exit(f"the package has no {name}")
