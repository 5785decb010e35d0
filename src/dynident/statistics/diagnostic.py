"""Finding: one thing that was noticed, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

SEVERITIES = ("error", "warning", "info")


@dataclass(frozen=True)
class Diagnostic:
    """`error`: a fit would not give what is asked; `warning`: it may mislead; `info`: worth knowing."""

    severity: str
    subject: str  # the parameter, signal or record
    sentence: str
    advice: str = ""

    def __str__(self) -> str:
        dot = "" if self.sentence.endswith("?") else "."
        return f"{self.severity:<8}{self.subject}: {self.sentence}{dot}{f' {self.advice}' if self.advice else ''}"


@dataclass(frozen=True)
class Check:
    """What was found before a fit, most severe first; `ok` means that nothing stands in its way."""

    findings: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    def __str__(self) -> str:
        if not self.findings:
            return "Nothing stands in the way of a fit: the data determine all unknowns around the start."
        counts = [(sum(f.severity == s for f in self.findings), s) for s in SEVERITIES]
        head = ", ".join(f"{n} {s}{'s' if n > 1 and s != 'info' else ''}" for n, s in counts if n)
        return "\n".join([f"{head}:", *map(str, self.findings)])
