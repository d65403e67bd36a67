"""Docstrings as Markdown: paragraphs, their sections as lists, and their example as code."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

EXAMPLE = "Example"
SECTIONS = ("Args", "Raises", "Returns", "Mutates", "Shapes", "Source", "Deviates", EXAMPLE)
_SECTION = re.compile(rf"({'|'.join(SECTIONS)}):(.*)")
_ENTRY = re.compile(r"([\w, ]+):(?: (.*))?")


@dataclass(slots=True)
class Docstring:
    """The parts of a docstring: text before the sections, and the entries of each section."""

    text: list[str] = field(default_factory=list)
    sections: dict[str, list[str]] = field(default_factory=dict)

    @property
    def example(self) -> str:
        """The code of the section `Example`; empty where there is none."""
        return "\n".join(self.sections.get(EXAMPLE, [])).strip("\n")

    def entries(self, section: str) -> dict[str, str]:
        """Return the entries of a section by name, each as one line."""
        found: dict[str, str] = {}
        names: list[str] = []
        for line in self.sections.get(section, []):
            indent = len(line) - len(line.lstrip())
            match = _ENTRY.fullmatch(line.strip()) if indent == 0 else None
            if match is not None:
                names = [name.strip() for name in match[1].split(",")]
                found |= dict.fromkeys(names, match[2] or "")
            elif line:
                for name in names:
                    found[name] = f"{found[name]} {line.strip()}"
        return found


def parse(docstring: str | None) -> Docstring:
    """Return the parts of a docstring."""
    parts = Docstring()
    lines = parts.text
    for line in inspect.cleandoc(docstring or "").splitlines():
        match = _SECTION.fullmatch(line)
        if match is None:
            lines.append(line.removeprefix("    ") if lines is not parts.text else line)
            continue
        lines = parts.sections.setdefault(match[1], [])
        if match[2].strip():
            lines.append(match[2].strip())
    return parts


def markdown(docstring: str | None) -> Iterator[str]:
    """Yield the lines of a docstring as Markdown."""
    parts = parse(docstring)
    yield from _trimmed(parts.text)
    for name, lines in parts.sections.items():
        entries = nested(lines)
        yield ""
        if name == EXAMPLE:
            yield from (f"{name}:", "", "```python", *parts.example.splitlines(), "```")
        elif name in ("Args", "Raises") and entries:
            yield f"{name}:"
            yield ""
            yield from entries
        else:
            yield f"{name}: {' '.join(line.strip() for line in lines if line.strip())}"


def nested(lines: list[str]) -> list[str]:
    """Return the entries of a section as a nested list."""
    found: list[str] = []
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        match = _ENTRY.fullmatch(text)
        is_entry = match is not None and (indent == 0 or _holds_entries(found))
        if is_entry and match is not None:
            depth = "  " if indent else ""
            found.append(f"{depth}- `{match[1]}`{': ' + match[2] if match[2] else ''}")
        elif text and found:
            found[-1] += f" {text}"
    return found


def _holds_entries(found: list[str]) -> bool:
    """Whether the newest entry is a name alone, or is inside such an entry."""
    return bool(found) and (found[-1].endswith("`") or found[-1].startswith("  "))


def _trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines
