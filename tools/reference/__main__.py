"""`python -m tools.reference`: write the generated pages of docs/reference."""

from pathlib import Path

from tools.reference.pages import PAGES, page_text

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def main() -> None:
    """Write every page whose text has changed, and name it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        path, text = FOLDER / name, page_text(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"written: docs/reference/{name}")


if __name__ == "__main__":
    main()
