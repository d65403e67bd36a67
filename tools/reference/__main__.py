"""`python -m tools.reference`: write what is generated from the code."""

from pathlib import Path

from tools.reference.pages import files

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Write every file whose text has changed, and name it."""
    for name, text in files():
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"written: {name}")


if __name__ == "__main__":
    main()
