"""Rankers for other engines: written in their formats, and checked by their rules."""

from saferank.serving.export.exporting import (
    TARGETS,
    EngineCheck,
    ExportReport,
    check_export,
    export,
)

__all__ = ["TARGETS", "EngineCheck", "ExportReport", "check_export", "export"]
