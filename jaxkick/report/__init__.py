"""A report for people who do not program: one HTML file that needs nothing else."""

from jaxkick.report.write import write_report

__all__ = ["write_report"]
