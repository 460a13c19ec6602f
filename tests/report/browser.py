"""Find a Chromium, or install one."""

import fcntl
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_WAIT = 240
_LOCK = Path(tempfile.gettempdir(), f"jaxkick-chromium-{os.geteuid()}.lock")


@functools.cache
def browser_path() -> str:
    """The path of a browser; skips the test where none can be had.

    Of several processes one installs, and the others wait for it.
    """
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _find() or _install()
    if found is None:
        pytest.skip("no Chromium on the path, and neither apt-get nor playwright could install one")
    return found


def _find() -> str | None:
    return _on_path() or _of_playwright()


def _install() -> str | None:
    return next((path for way in (_by_apt, _by_playwright) if way() and (path := _find())), None)


def _on_path() -> str | None:
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def _of_playwright() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def _by_apt() -> bool:
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return False
    options = ["-qq", "-y", "-o", "DPkg::Lock::Timeout=120"]
    update = _succeeds(["apt-get", *options, "update"])
    return update and _succeeds(["apt-get", *options, "install", "chromium"])


def _by_playwright() -> bool:
    return _succeeds([sys.executable, "-m", "playwright", "install", "chromium"])


def _succeeds(command: list[str]) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=_WAIT)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
