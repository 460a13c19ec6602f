"""Check that the wheel holds every file of the package and nothing else.

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
    sys.exit(f"missing in the wheel: {sorted(wanted - held)}; unexpected: {sorted(held - wanted)}")
for name in (
    "jaxkick/py.typed",
    "jaxkick/datasets/bundesliga.csv.gz",
    "jaxkick/report/assets/page.html",
):
    if name not in held:
        sys.exit(f"missing in the wheel: {name}")
