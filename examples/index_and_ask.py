"""Index three notes, ask a question, add a document, ask again: `index_and_ask.py CORPUS`."""

import subprocess
import sys
from pathlib import Path

from heddle import Server

NOTES = Path(__file__).with_name("notes")


def main(corpus: str) -> None:
    """Print two answers, each with the title of the passage nearest to its question."""
    index = [sys.executable, "-m", "heddle.cli.main", "index", str(NOTES), "--into", corpus]
    subprocess.run(index, check=True)  # the command `heddle index NOTES --into CORPUS`

    with Server(generator="reader", index=corpus) as server:
        app = server.app("oneshot")
        answer = app.invoke("Who founded Oak Mill?")
        print(answer.text, "-", answer.passages[0].title)

        text = "The Stone Bakery was founded by Ida Moss in 1850. It bakes at night."
        server.upsert("bakery", text, title="The Stone Bakery")
        answer = app.invoke("Who founded the Stone Bakery?")  # found without a restart
        print(answer.text, "-", answer.passages[0].title)


if __name__ == "__main__":
    main(sys.argv[1])
