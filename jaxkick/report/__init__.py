"""Interactive HTML reports: one file, no network needed."""

from jaxkick.report.page import write_report

__all__ = ["write_report"]
